//! What makes the engine take a run, and who has taken it.

use interlock_model::RunId;
use interlock_model::run::RunStatus;

use super::super::rows::{self, RunLease};
use super::super::tables::{Changes, Pick, Table, scan_prefix};
use super::{Fault, Known, Look, Standing};
use crate::StoreError;

pub(super) fn not_drained(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    let waiting = scan_prefix(look.view, Table::Inbox, &rows::of_run(look.tenant, run), Pick::First(1))?;
    // Told once, however much waits: at the first that does, and at the run itself only if nothing does.
    let is_told_elsewhere = look.at.is_some_and(|(table, row)| {
        if table == Table::Inbox { waiting.first() != Some(row) } else { !waiting.is_empty() }
    });
    if is_told_elsewhere {
        return Ok(None);
    }
    let what = match look.head(run)? {
        Known::Absent if !waiting.is_empty() => return forgotten(look, run).map(Some),
        Known::Is(_) if !waiting.is_empty() => "something waits in its inbox",
        Known::Is(head) if head.status == RunStatus::Pending => "it has not begun yet",
        Known::Absent | Known::Is(_) | Known::Unreadable => return Ok(None),
    };
    let key = rows::run(look.tenant, run);
    if look.is_there(Table::Ready, &key)? || is_held(look, &key)? {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::Ready, key);
    Ok(Some(Fault::new(format!("the run is not ready for the engine, though {what}"), changes)))
}

/// Nobody will ever read it.
fn forgotten(look: &Look<'_>, run: RunId) -> Result<Fault, StoreError> {
    let mut changes = Changes::default();
    for row in scan_prefix(look.view, Table::Inbox, &rows::of_run(look.tenant, run), Pick::First(usize::MAX))?
    {
        changes.delete(Table::Inbox, row.key);
    }
    Ok(Fault::new("something waits in the inbox of a run that is not there", changes))
}

fn is_held(look: &Look<'_>, key: &str) -> Result<bool, StoreError> {
    let hold: Known<RunLease> = look.read(Table::RunLeases, key)?;
    Ok(matches!(hold, Known::Is(hold) if look.now < hold.expires_at))
}

pub(super) fn ready_without_run(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    let key = rows::run(look.tenant, run);
    if !look.is_there(Table::Ready, &key)? || look.standing(run)? != Standing::Gone {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.delete(Table::Ready, key);
    Ok(Some(Fault::new("the engine is told to look at a run that is not there", changes)))
}

pub(super) fn without_holder(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    let key = rows::run(look.tenant, run);
    let Known::Is(hold) = look.read::<RunLease>(Table::RunLeases, &key)? else { return Ok(None) };
    let RunLease { holder, expires_at, .. } = hold;
    let detail = if look.standing(run)? == Standing::Gone {
        format!("{holder} holds a run that is not there")
    } else if look.is_past_grace(expires_at) {
        format!("the hold of {holder} ran out at {expires_at}, and nobody has taken the run since")
    } else {
        return Ok(None);
    };
    let mut changes = Changes::default();
    changes.delete(Table::RunLeases, key);
    Ok(Some(Fault::new(detail, changes)))
}
