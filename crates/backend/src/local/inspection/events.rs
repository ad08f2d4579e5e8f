//! Steps that wait for what is sent to a key (`<run>/<step>`), and their index.

use interlock_model::event::{AwaitedEvent, EventWaiter};
use interlock_model::step::StepRun;
use interlock_model::{RunId, StepKey};

use super::super::rows;
use super::super::tables::{Row, Table};
use super::{Checked, Inspection, RunState};
use crate::StoreError;

fn waiter_in(step: StepKey, row: &str) -> Option<EventWaiter> {
    let AwaitedEvent { name, key } = serde_json::from_str::<StepRun>(row).ok()?.awaits?;
    Some(EventWaiter { step, name, key: key? })
}

fn read(subject: &str) -> Option<(RunId, StepKey)> {
    let (run, step) = subject.split_once('/')?;
    Some((run.parse().ok()?, step.parse().ok()?))
}

/// The step of this row, if it waits for a key.
pub(super) fn awaiting(row: &Row) -> Option<String> {
    let subject = rows::after_tenant(&row.key)?;
    waiter_in(read(subject)?.1, &row.value).map(|_| subject.to_owned())
}

/// The place of the step in the index, if it waits and its run is live.
fn place(look: &Inspection<'_>, (run, step): (RunId, StepKey)) -> Result<Option<String>, StoreError> {
    if look.run_state(run)? != RunState::Live {
        return Ok(None);
    }
    let row = look.view.get(Table::Steps, &rows::step(look.tenant, run, &step))?;
    let waiter = row.and_then(|row| waiter_in(step, &row));
    Ok(waiter.map(|waiter| rows::event_waiter(look.tenant, run, &waiter)))
}

pub(super) fn not_indexed(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some(named) = read(subject) else { return Ok(None) };
    let Some(place) = place(look, named)? else { return Ok(None) };
    look.missing(Table::EventWaiters, place, "the step waits for a key and is in no index".to_owned())
}

/// `subject`: an entry of the index.
pub(super) fn without_step(look: &Inspection<'_>, subject: &str) -> Checked {
    let key = format!("{}{subject}", rows::of_tenant(look.tenant));
    let Some(named) = subject.splitn(3, '/').nth(2).and_then(read) else { return Ok(None) };
    let is_entry = look.has(Table::EventWaiters, &key)?;
    if !is_entry || look.run_state(named.0)? == RunState::Unreadable {
        return Ok(None);
    }
    if place(look, named)?.as_ref() == Some(&key) {
        return Ok(None);
    }
    look.fault("the index says that a step waits for a key, and it does not", |draft| {
        draft.delete(Table::EventWaiters, key);
    })
}
