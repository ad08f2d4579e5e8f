//! Named limits: their slots, their counts and their queues.

use interlock_model::RunId;
use interlock_model::limit::group::{Fullness, Group};
use interlock_model::limit::place::{RunSlots, Waiting};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::{Head, RunStatus, Start};

use super::super::rows;
use super::super::slots::QueueEntry;
use super::super::tables::{Pick, Table, scan_prefix};
use super::{Checked, Inspection, Known};
use crate::StoreError;

pub(super) fn slot_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let Some(why) = look.run_state(run)?.why_over() else { return Ok(None) };
    let slots = look.keys_of(Table::LimitSlots, &run.to_string())?;
    if slots.is_empty() {
        return Ok(None);
    }
    look.try_fault(format!("the run holds a slot of a limit, and {why}"), |draft| {
        let now = draft.now;
        let mut freed = Vec::new();
        for slot in slots {
            let Some(claim) = rows::claim_of_group(&slot) else { continue };
            draft.delete(Table::LimitSlots, slot);
            draft.change_group(&claim, |group, _| group.release(now))?;
            freed.push(claim);
        }
        draft.forget_run_slots(run);
        draft.grant_slots(&freed).map(drop)
    })
}

/// A run that holds a slot of its tenant holds one of each group that it counts in.
pub(super) fn run_without_slot(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    let Known::Is(slots) = look.read::<RunSlots>(Table::RunSlots, &key)? else { return Ok(None) };
    // A child that does not wait has begun, or is about to.
    let has_begun = look.has(Table::Active, &key)? || slots.parent.is_some() && slots.waiting.is_none();
    if !has_begun || look.run_state(run)?.why_over().is_some() {
        return Ok(None);
    }
    for claim in &slots.claims {
        if !look.has(Table::LimitSlots, &rows::limit_slot(look.tenant, claim, run))? {
            let detail = format!("the run is live and holds no slot of limit `{}`", claim.limit);
            return look.try_fault(detail, |draft| draft.restore_slots(run));
        }
    }
    Ok(None)
}

/// The subject is `limit/group`.
pub(super) fn count_drift(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some(claim) = rows::claim_of_group(&format!("{}/{subject}", look.tenant)) else { return Ok(None) };
    let written: Known<Group> = look.read(Table::LimitGroups, &rows::group(look.tenant, &claim))?;
    let Known::Is(group) = written else { return Ok(None) };
    let count = |table, prefix: &str| -> Result<u32, StoreError> {
        let rows = scan_prefix(look.view, table, prefix, Pick::First(usize::MAX))?;
        Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX))
    };
    let live = count(Table::LimitSlots, &rows::limit_slots(look.tenant, &claim))?;
    let queued = count(Table::RunQueue, &rows::run_queue(look.tenant, &claim))?;
    if (group.live, group.queued) == (live, queued) {
        return Ok(None);
    }
    let (live_written, queued_written) = (group.live, group.queued);
    let detail = format!(
        "the group counts {live_written} live and {queued_written} waiting runs, and there are {live} and {queued}"
    );
    look.try_fault(detail, |draft| {
        draft.change_group(&claim, |group, _| (group.live, group.queued) = (live, queued))?;
        draft.grant_slots(&[claim]).map(drop)
    })
}

/// A queued run waits in a queue, unless something has come for it that its next turn takes into account.
pub(super) fn queued_in_no_queue(look: &Inspection<'_>, run: RunId) -> Checked {
    let key = rows::run(look.tenant, run);
    let Known::Is(Head { status: RunStatus::Queued, .. }) = look.head(run)? else { return Ok(None) };
    for table in [Table::Active, Table::Ready, Table::RunLeases] {
        if look.has(table, &key)? {
            return Ok(None);
        }
    }
    let slots = match look.read::<RunSlots>(Table::RunSlots, &key)? {
        Known::Is(slots) => slots,
        Known::Absent => RunSlots::default(),
        Known::Unreadable => return Ok(None),
    };
    if slots.debounced.is_some() {
        return Ok(None);
    }
    if let Some(waiting) = &slots.waiting
        && look.has(Table::RunQueue, &rows::queued_run(look.tenant, waiting, run))?
    {
        return Ok(None);
    }
    let Known::Is(Start { workflow, priority, .. }) = look.read(Table::Starts, &key)? else {
        return Ok(None);
    };
    look.try_fault("the run is queued and waits in no queue", |draft| {
        // A child does not wait for a slot of its tenant.
        let own = slots.claims.first().filter(|_| slots.parent.is_some());
        let (now, queue) = (draft.now, own.cloned().unwrap_or_else(SlotClaim::tenant_runs));
        let place = match &slots.waiting {
            Some(Waiting { place, .. }) => *place,
            None => draft.next_place(priority)?,
        };
        let entry = QueueEntry { run, workflow, place };
        draft.put_run_slots(run, &RunSlots { waiting: None, ..slots });
        // From here it is moved to the queue that blocks it, or starts.
        draft.enter_queue(&entry, (&queue, Fullness::Others))?;
        draft.grant_at(now, &queue);
        Ok(())
    })
}

/// Whether this is the entry of a run that waits here.
pub(super) fn entry_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let slots: Known<RunSlots> = look.read(Table::RunSlots, &rows::run(look.tenant, run))?;
    let is_queued = match look.head(run)? {
        Known::Is(head) => head.status == RunStatus::Queued,
        Known::Absent => false,
        Known::Unreadable => return Ok(None),
    };
    let own = match slots {
        Known::Is(RunSlots { waiting: Some(waiting), .. }) if is_queued => {
            Some(rows::queued_run(look.tenant, &waiting, run))
        }
        Known::Is(_) | Known::Absent => None,
        Known::Unreadable => return Ok(None),
    };
    let mut entries = look.keys_of(Table::RunQueue, &run.to_string())?;
    entries.retain(|key| Some(key) != own.as_ref());
    if entries.is_empty() {
        return Ok(None);
    }
    look.try_fault("a queue has an entry of a run that does not wait there", |draft| {
        for key in entries {
            if let Some(claim) = rows::claim_of_group(&key) {
                draft.change_group(&claim, |group, _| group.queued = group.queued.saturating_sub(1))?;
            }
            draft.delete(Table::RunQueue, key);
        }
        Ok(())
    })
}

/// A run that waits for newer starts is listed, and has a timer.
pub(super) fn debounced_without_timer(look: &Inspection<'_>, run: RunId) -> Checked {
    let slots: Known<RunSlots> = look.read(Table::RunSlots, &rows::run(look.tenant, run))?;
    let Known::Is(RunSlots { debounced: Some(debounced), .. }) = slots else { return Ok(None) };
    let entry = rows::debounced_run(look.tenant, &debounced, run);
    let timer = rows::quiet_timer(look.tenant, &debounced, run);
    if look.has(Table::Debounced, &entry)? && look.has(Table::LimitTimers, &timer)? {
        return Ok(None);
    }
    look.fault("the run waits for newer starts, and no timer ends that", |draft| {
        draft.mark(Table::Debounced, entry);
        draft.mark(Table::LimitTimers, timer);
    })
}

/// Whether a run that is listed waits for newer starts here.
pub(super) fn debounce_entry_without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let own = match look.read::<RunSlots>(Table::RunSlots, &rows::run(look.tenant, run))? {
        Known::Is(RunSlots { debounced: Some(debounced), .. }) => {
            Some(rows::debounced_run(look.tenant, &debounced, run))
        }
        Known::Is(_) | Known::Absent => None,
        Known::Unreadable => return Ok(None),
    };
    let mut entries = look.keys_of(Table::Debounced, &run.to_string())?;
    entries.retain(|key| Some(key) != own.as_ref());
    if entries.is_empty() {
        return Ok(None);
    }
    look.fault("a run is listed as waiting for newer starts, and does not", |draft| {
        draft.delete_all(Table::Debounced, entries);
    })
}

/// The first run of a queue starts when its group has room, at once or by a timer.
pub(super) fn startable_waits(look: &Inspection<'_>, run: RunId) -> Checked {
    let slots: Known<RunSlots> = look.read(Table::RunSlots, &rows::run(look.tenant, run))?;
    let Known::Is(RunSlots { waiting: Some(waiting), .. }) = slots else { return Ok(None) };
    let claim = SlotClaim { limit: waiting.limit.clone(), group: waiting.group.clone() };
    let queue = rows::run_queue(look.tenant, &claim);
    let first = scan_prefix(look.view, Table::RunQueue, &queue, Pick::First(1))?;
    let is_first = first.first().is_some_and(|row| row.key == rows::queued_run(look.tenant, &waiting, run));
    if !is_first || look.tenant_row()?.is_none() || is_to_be_granted(look, &claim)? {
        return Ok(None);
    }
    let mut draft = look.draft();
    let met = draft.group(&claim)?;
    let detail = match met.group.fullness(&met.rule, look.now) {
        None => format!("limit `{}` has room, and its first queued run does not start", claim.limit),
        Some(Fullness::Rate { next_at }) => {
            format!(
                "the first queued run of limit `{}` may start at {next_at}, and no timer is set",
                claim.limit
            )
        }
        Some(Fullness::Slots | Fullness::Paused | Fullness::Others | Fullness::Quiet(_)) => return Ok(None),
    };
    look.fault(detail, |draft| draft.grant_at(draft.now, &claim))
}

/// Whether a timer is about to grant the slots of the group.
fn is_to_be_granted(look: &Inspection<'_>, claim: &SlotClaim) -> Result<bool, StoreError> {
    let mut is_set = false;
    look.each(Table::LimitTimers, |row| {
        is_set |= match rows::LimitTimer::read(&row.key) {
            Some(rows::LimitTimer::Group(group)) => group == *claim,
            Some(rows::LimitTimer::All { limit, .. }) => limit == claim.limit,
            Some(rows::LimitTimer::Quiet(_)) | None => false,
        };
    })?;
    Ok(is_set)
}
