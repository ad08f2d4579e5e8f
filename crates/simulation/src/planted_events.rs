//! Planted bugs of events.

use interlock_backend::local::{Decision, Table, View};
use interlock_backend::verbs::{Commit, SendEvent};
use interlock_backend::{StoreError, Verb as _};
use interlock_model::step::StepRun;

use crate::Bug;
use crate::planted::{Found, alter, edit};
use crate::tables::changes;

pub(crate) const SEND: &str = SendEvent::ACTION;

/// No event was sent before.
pub(crate) fn hide_sent(view: &dyn View, table: Table, key: &str) -> Found {
    if table == Table::RunEvents { Ok(None) } else { view.get(table, key) }
}

/// The decision without some of its writes.
fn without<R>(decided: Decision<R>, is_lost: impl Fn(Table, Option<&String>) -> bool) -> Decision<R> {
    let mut writes = decided.changes.into_writes();
    writes.retain(|(table, _, value)| !is_lost(*table, value.as_ref()));
    Decision { answer: decided.answer, changes: changes(writes) }
}

/// The decision as the bug writes it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are planted elsewhere")]
pub(crate) fn spoil<R>(bug: Bug, action: &str, decided: Decision<R>) -> Result<Decision<R>, StoreError> {
    match bug {
        Bug::EventNotKept if action == Commit::ACTION => alter(decided, |write| {
            if let (Table::Steps, _, Some(value)) = write {
                *value = edit(Some(value.clone()), |step: &mut StepRun| step.kept_events.clear());
            }
            Ok(())
        }),
        Bug::KeptEventMissed if action == Commit::ACTION => {
            Ok(without(decided, |table, _| matches!(table, Table::KeptEvents | Table::KeyedEvents)))
        }
        Bug::WaitLeftInIndex if action == Commit::ACTION => {
            Ok(without(decided, |table, value| table == Table::EventWaiters && value.is_none()))
        }
        Bug::EventNotPosted if action == SEND => {
            Ok(without(decided, |table, _| matches!(table, Table::Inbox | Table::Ready)))
        }
        _ => Ok(decided),
    }
}
