//! Timers and the runs that they are for.

use interlock_model::RunId;

use super::super::rows;
use super::super::tables::{Changes, Table};
use super::{Fault, Known, Look, Standing};
use crate::StoreError;

pub(super) fn overdue(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    if look.standing(run)? != Standing::Live {
        return Ok(None);
    }
    let mut late = look.keys_of(Table::Timers, &run.to_string())?;
    late.retain(|key| rows::time_of(key).is_some_and(|at| look.is_past_grace(at)));
    let Some(first) = late.iter().filter_map(|key| rows::time_of(key)).min() else { return Ok(None) };
    let mut changes = Changes::default();
    for key in late {
        changes.delete(Table::Timers, key);
    }
    changes.mark(Table::Ready, rows::run(look.tenant, run));
    Ok(Some(Fault::new(format!("something was to happen at {first}, and has not"), changes)))
}

pub(super) fn missing(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    let Known::Is(head) = look.head(run)? else { return Ok(None) };
    let Some(due_at) = head.due_at.filter(|_| !head.status.is_final()) else { return Ok(None) };
    let timer = rows::timer(look.tenant, due_at, run);
    // One that has come due has become a ready mark.
    let is_known =
        look.is_there(Table::Timers, &timer)? || look.is_there(Table::Ready, &rows::run(look.tenant, run))?;
    if is_known {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::Timers, timer);
    Ok(Some(Fault::new(format!("something is to happen at {due_at}, and no timer is set"), changes)))
}

pub(super) fn without_run(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    let Some(why) = look.standing(run)?.why_over() else { return Ok(None) };
    let timers = look.keys_of(Table::Timers, &run.to_string())?;
    if timers.is_empty() {
        return Ok(None);
    }
    let mut changes = Changes::default();
    for timer in timers {
        changes.delete(Table::Timers, timer);
    }
    Ok(Some(Fault::new(format!("a timer is set, and {why}"), changes)))
}
