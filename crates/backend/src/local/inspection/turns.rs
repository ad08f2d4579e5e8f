//! What makes the engine acquire a run, and who has acquired it.

use interlock_model::RunId;
use interlock_model::run::RunStatus;

use super::super::rows::{self, RunLease};
use super::super::tables::{Pick, Table, scan_prefix};
use super::{Checked, Inspection, Known, RunState};
use crate::StoreError;

pub(super) fn not_drained(look: &Inspection<'_>, run: RunId) -> Checked {
    let waiting = scan_prefix(look.view, Table::Inbox, &rows::of_run(look.tenant, run), Pick::First(1))?;
    // Reported once, however much waits: at the first event, and at the run itself only if nothing waits.
    let is_found_elsewhere = look.at.is_some_and(|(table, row)| {
        if table == Table::Inbox { waiting.first() != Some(row) } else { !waiting.is_empty() }
    });
    if is_found_elsewhere {
        return Ok(None);
    }
    let what = match look.head(run)? {
        Known::Absent if !waiting.is_empty() => return forgotten(look, run),
        Known::Is(_) if !waiting.is_empty() => "something waits in its inbox",
        Known::Is(head) if head.status == RunStatus::Pending => "it has not begun yet",
        Known::Absent | Known::Is(_) | Known::Unreadable => return Ok(None),
    };
    let key = rows::run(look.tenant, run);
    if look.is_there(Table::Ready, &key)? || is_held(look, &key)? {
        return Ok(None);
    }
    look.fault(format!("the run is not ready for the engine, though {what}"), |draft| {
        draft.mark(Table::Ready, key);
    })
}

/// Events that no turn will ever take.
fn forgotten(look: &Inspection<'_>, run: RunId) -> Checked {
    let inbox = rows::of_run(look.tenant, run);
    let rows = scan_prefix(look.view, Table::Inbox, &inbox, Pick::First(usize::MAX))?;
    look.fault("something waits in the inbox of a run that is not there", |draft| {
        draft.delete_all(Table::Inbox, rows.into_iter().map(|row| row.key));
    })
}

fn is_held(look: &Inspection<'_>, key: &str) -> Result<bool, StoreError> {
    let hold: Known<RunLease> = look.read(Table::RunLeases, key)?;
    Ok(matches!(hold, Known::Is(hold) if look.now < hold.expires_at))
}

pub(super) fn ready_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    if !look.is_there(Table::Ready, &key)? || look.run_state(run)? != RunState::Missing {
        return Ok(None);
    }
    look.fault("the engine is told to look at a run that is not there", |draft| {
        draft.delete(Table::Ready, key);
    })
}

pub(super) fn without_holder(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    let Known::Is(hold) = look.read::<RunLease>(Table::RunLeases, &key)? else { return Ok(None) };
    let RunLease { holder, expires_at, .. } = hold;
    let detail = if look.run_state(run)? == RunState::Missing {
        format!("{holder} holds a run that is not there")
    } else if look.is_past_grace(expires_at) {
        format!("the hold of {holder} ran out at {expires_at}, and nobody has taken the run since")
    } else {
        return Ok(None);
    };
    look.fault(detail, |draft| draft.delete(Table::RunLeases, key))
}
