//! Planted bugs of children.

use interlock_backend::Verb as _;
use interlock_backend::local::{Decision, Table, View};
use interlock_backend::verbs::{Commit, SettleChildStart};
use interlock_model::limit::place::RunSlots;

use crate::Bug;
use crate::checker::Write;
use crate::planted::{Found, edit};
use crate::tables::changes;

const COMMIT: &str = Commit::ACTION;
pub(crate) const START: &str = SettleChildStart::ACTION;

/// No run above a child counts in a group.
pub(crate) fn hide_groups_above(view: &dyn View, table: Table, key: &str) -> Found {
    let found = view.get(table, key)?;
    if table != Table::RunSlots {
        return Ok(found);
    }
    Ok(found.map(|row| edit(Some(row), |slots: &mut RunSlots| slots.claims.clear())))
}

/// The decision as the bug writes it.
pub(crate) fn spoil<R>(bug: Bug, action: &str, decided: Decision<R>) -> Decision<R> {
    let Decision { answer, changes: all } = decided;
    let mut writes = all.into_writes();
    match (bug, action) {
        (Bug::ChildTakesSlot, START) => {
            let child =
                writes.iter().find(|(table, ..)| *table == Table::Starts).map(|(_, key, _)| key.clone());
            writes.extend(child.map(|key| (Table::Active, key, Some(String::new()))));
        }
        (Bug::CancelForgetsChildren, COMMIT) => {
            writes.retain(|write| !is_event(write, r#"{"cancel""#));
        }
        (Bug::ChildEndNotDelivered, COMMIT) => writes.retain(|write| !is_event(write, r#"{"child""#)),
        (Bug::GivenUpChildStarts, COMMIT) => {
            let is_kept = |table| matches!(table, Table::ChildStarts | Table::ChildrenDue);
            writes.retain(|(table, _, value)| !is_kept(*table) || value.is_some());
        }
        (_, _) => {}
    }
    Decision { answer, changes: changes(writes) }
}

fn is_event((table, _, value): &Write, beginning: &str) -> bool {
    *table == Table::Inbox && value.as_ref().is_some_and(|event| event.starts_with(beginning))
}
