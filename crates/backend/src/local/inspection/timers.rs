//! Timers and the runs that they are for.

use interlock_model::RunId;

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known, RunState};

pub(super) fn overdue(look: &Inspection<'_>, run: RunId) -> Checked {
    if look.run_state(run)? != RunState::Live {
        return Ok(None);
    }
    let mut late = look.keys_of(Table::Timers, &run.to_string())?;
    late.retain(|key| rows::time_of(key).is_some_and(|at| look.is_past_grace(at)));
    let Some(first) = late.iter().filter_map(|key| rows::time_of(key)).min() else { return Ok(None) };
    look.fault(format!("something was to happen at {first}, and has not"), |draft| {
        draft.delete_all(Table::Timers, late);
        draft.mark(Table::Ready, rows::run(look.tenant, run));
    })
}

pub(super) fn missing(look: &Inspection<'_>, run: RunId) -> Checked {
    let Known::Is(head) = look.head(run)? else { return Ok(None) };
    let Some(due_at) = head.due_at.filter(|_| !head.status.is_final()) else { return Ok(None) };
    let timer = rows::timed(look.tenant, due_at, &run);
    // A timer that has fired is a ready mark now.
    let is_known =
        look.is_there(Table::Timers, &timer)? || look.is_there(Table::Ready, &rows::run(look.tenant, run))?;
    if is_known {
        return Ok(None);
    }
    look.fault(format!("something is to happen at {due_at}, and no timer is set"), |draft| {
        draft.mark(Table::Timers, timer);
    })
}

pub(super) fn without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let Some(why) = look.run_state(run)?.why_over() else { return Ok(None) };
    let timers = look.keys_of(Table::Timers, &run.to_string())?;
    if timers.is_empty() {
        return Ok(None);
    }
    look.fault(format!("a timer is set, and {why}"), |draft| draft.delete_all(Table::Timers, timers))
}
