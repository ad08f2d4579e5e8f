//! Runs: their slots, their timers, and what makes the engine acquire them.

use interlock_model::RunId;
use interlock_model::limit::place::RunSlots;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::RunStatus;

use super::super::rows::{self, RunLease};
use super::super::tables::{Pick, Table, scan_prefix};
use super::{Checked, Inspection, Known, RunState};
use crate::StoreError;

pub(super) fn slot_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let has_slot = look.has(Table::Active, &rows::run(look.tenant, run))?;
    if !has_slot || look.tenant_row()?.is_none() {
        return Ok(None);
    }
    let Some(why) = look.run_state(run)?.why_over() else { return Ok(None) };
    look.try_fault(format!("the run holds a slot, and {why}"), |draft| draft.release_slots(run).map(drop))
}

pub(super) fn without_slot(look: &Inspection<'_>, run: RunId) -> Checked {
    let has_slot = look.has(Table::Active, &rows::run(look.tenant, run))?;
    let Known::Is(head) = look.head(run)? else { return Ok(None) };
    let needs_slot = !head.status.is_final() && head.status != RunStatus::Queued;
    if has_slot || !needs_slot || look.tenant_row()?.is_none() || is_child(look, run)? {
        return Ok(None);
    }
    look.try_fault("the run is live and holds no slot: the tenant can exceed its cap by one", |draft| {
        draft.restore_slots(run)
    })
}

/// Whether the run runs in the slot of its root, or that cannot be read.
fn is_child(look: &Inspection<'_>, run: RunId) -> Result<bool, StoreError> {
    Ok(match look.read::<RunSlots>(Table::RunSlots, &rows::run(look.tenant, run))? {
        Known::Is(slots) => slots.parent.is_some(),
        Known::Absent => false,
        Known::Unreadable => true,
    })
}

pub(super) fn slot_count_drift(look: &Inspection<'_>) -> Checked {
    let Some(tenant) = look.tenant_row()? else { return Ok(None) };
    let (written, counted) = (tenant.runs_active, look.count(Table::Active)?);
    let queue = rows::run_queue(look.tenant, &SlotClaim::tenant_runs());
    let waiting = scan_prefix(look.view, Table::RunQueue, &queue, Pick::First(usize::MAX))?.len();
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    if (written, tenant.runs_queued) == (counted, waiting) {
        return Ok(None);
    }
    let queued = tenant.runs_queued;
    let detail = format!(
        "the tenant's row counts {written} live and {queued} waiting runs, and {counted} hold a slot and {waiting} wait"
    );
    look.try_fault(detail, |draft| {
        let tenant = draft.tenant()?;
        (tenant.runs_active, tenant.runs_queued) = (counted, waiting);
        Ok(())
    })
}

pub(super) fn timer_overdue(look: &Inspection<'_>, run: RunId) -> Checked {
    if look.run_state(run)? != RunState::Live {
        return Ok(None);
    }
    let mut late = look.keys_of(Table::Timers, &run.to_string())?;
    late.retain(|key| rows::time_of(key).is_some_and(|at| look.is_past_grace(at)));
    let Some(first) = late.iter().filter_map(|key| rows::time_of(key)).min() else { return Ok(None) };
    look.fault(format!("a timer was due at {first} and did not fire"), |draft| {
        draft.delete_all(Table::Timers, late);
        draft.mark(Table::Ready, rows::run(look.tenant, run));
    })
}

pub(super) fn timer_missing(look: &Inspection<'_>, run: RunId) -> Checked {
    let Known::Is(head) = look.head(run)? else { return Ok(None) };
    let Some(due_at) = head.due_at.filter(|_| !head.status.is_final()) else { return Ok(None) };
    let timer = rows::timed(look.tenant, due_at, &run);
    // A timer that has fired is a ready mark now.
    let key = rows::run(look.tenant, run);
    if look.has(Table::Timers, &timer)? || look.has(Table::Ready, &key)? || is_quarantined(look, &key)? {
        return Ok(None);
    }
    look.fault(format!("a timer is due at {due_at} and is not set"), |draft| {
        draft.mark(Table::Timers, timer);
    })
}

pub(super) fn timer_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let Some(why) = look.run_state(run)?.why_over() else { return Ok(None) };
    let timers = look.keys_of(Table::Timers, &run.to_string())?;
    if timers.is_empty() {
        return Ok(None);
    }
    look.fault(format!("a timer is set, and {why}"), |draft| draft.delete_all(Table::Timers, timers))
}

pub(super) fn inbox_not_drained(look: &Inspection<'_>, run: RunId) -> Checked {
    let waiting = scan_prefix(look.view, Table::Inbox, &rows::of_run(look.tenant, run), Pick::First(1))?;
    // Reported once, however much waits: at the first event, and at the run itself only if nothing waits.
    let is_found_elsewhere = look.at.is_some_and(|(table, row)| {
        if table == Table::Inbox { waiting.first() != Some(row) } else { !waiting.is_empty() }
    });
    if is_found_elsewhere {
        return Ok(None);
    }
    let what = match look.head(run)? {
        Known::Absent if !waiting.is_empty() => return inbox_without_run(look, run),
        Known::Is(_) if !waiting.is_empty() => "events wait in its inbox",
        Known::Is(head) if head.status == RunStatus::Pending => "it has not begun yet",
        Known::Absent | Known::Is(_) | Known::Unreadable => return Ok(None),
    };
    let key = rows::run(look.tenant, run);
    if look.has(Table::Ready, &key)? || is_leased(look, &key)? || is_quarantined(look, &key)? {
        return Ok(None);
    }
    look.fault(format!("the run is not marked as ready, though {what}"), |draft| {
        draft.mark(Table::Ready, key);
    })
}

fn inbox_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let inbox = rows::of_run(look.tenant, run);
    let rows = scan_prefix(look.view, Table::Inbox, &inbox, Pick::First(usize::MAX))?;
    look.fault("events wait in the inbox of a run that does not exist", |draft| {
        draft.delete_all(Table::Inbox, rows.into_iter().map(|row| row.key));
    })
}

fn is_leased(look: &Inspection<'_>, key: &str) -> Result<bool, StoreError> {
    let lease: Known<RunLease> = look.read(Table::RunLeases, key)?;
    Ok(matches!(lease, Known::Is(lease) if look.now < lease.expires_at))
}

/// Nothing is done for a quarantined run: what comes for it waits.
fn is_quarantined(look: &Inspection<'_>, key: &str) -> Result<bool, StoreError> {
    let lease: Known<RunLease> = look.read(Table::RunLeases, key)?;
    Ok(matches!(lease, Known::Is(lease) if lease.quarantined_at.is_some()))
}

pub(super) fn quarantined(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    let Known::Is(lease) = look.read::<RunLease>(Table::RunLeases, &key)? else { return Ok(None) };
    let Some(since) = lease.quarantined_at.filter(|_| lease.cancel.is_none()) else { return Ok(None) };
    let detail =
        format!("the run is quarantined since {since}, after {} abandoned turns in a row", lease.tries);
    look.try_fault(detail, |draft| draft.lift_quarantine(run).map(drop))
}

pub(super) fn ready_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    if !look.has(Table::Ready, &key)? || look.run_state(run)? != RunState::Missing {
        return Ok(None);
    }
    look.fault("a run is marked as ready that does not exist", |draft| draft.delete(Table::Ready, key))
}

pub(super) fn lease_without_holder(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    let Known::Is(lease) = look.read::<RunLease>(Table::RunLeases, &key)? else { return Ok(None) };
    let RunLease { holder, expires_at, quarantined_at, .. } = lease;
    let detail = if look.run_state(run)? == RunState::Missing {
        format!("{holder} has a lease on a run that does not exist")
    } else if quarantined_at.is_none() && look.is_past_grace(expires_at) {
        format!("the run lease of {holder} expired at {expires_at} and was not ended")
    } else {
        return Ok(None);
    };
    look.fault(detail, |draft| draft.delete(Table::RunLeases, key))
}
