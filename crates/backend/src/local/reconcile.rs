//! What the slow loops do to one tenant at a time.

use interlock_model::admission::KeyRecord;
use interlock_model::dispatch_policy::HoldReason;
use interlock_model::job::{Job, JobLease, OpenJob};
use interlock_model::limit::place::RunSlots;
use interlock_model::run::{Head, RunStatus};
use interlock_model::{JobId, RunId, Timestamp};

use super::draft::{Draft, decide};
use super::rows;
use super::store::Look;
use super::tables::{Pick, Row, Table, View, end_of, parse};
use crate::StoreError;
use crate::reconcile::{LOOKED_AT_MAX, RequeuedJobs, Retired, SlotDrift};
use crate::verbs::{ListExpiredLeases, RepairSlots, RequeueJobs, Retire};
use crate::workers::WorkerRecord;

impl Look for ListExpiredLeases {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Vec<(JobId, JobLease)>, StoreError> {
        let draft = Draft::new(view, now, &self.tenant);
        let mut found = Vec::new();
        for row in draft.due(Table::JobExpiries, now, self.limit)? {
            let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
            if let Some(lease) = draft.read(Table::JobLeases, &rows::job(&self.tenant, &job))? {
                found.push((job, lease));
            }
        }
        Ok(found)
    }
}

decide!(RequeueJobs, |verb, draft| {
    let mut requeued = RequeuedJobs::default();
    for row in draft.scan_tenant(Table::JobListing, Pick::Last(verb.limit))? {
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        let key = rows::job(&verb.tenant, &job);
        // One that cannot be read does not keep the others waiting.
        let Ok(Some(found)) = draft.read::<Job>(Table::Jobs, &key) else { continue };
        let Ok(lease) = draft.read::<JobLease>(Table::JobLeases, &key) else { continue };
        if found.end.is_some() {
            continue;
        }
        let open = OpenJob {
            lease: lease.as_ref(),
            is_in_queue: draft
                .has(Table::Queue, &rows::queued(&verb.tenant, &found.new, found.created_at))?,
            is_held: draft.has(Table::Held, &key)?,
        };
        if open.is_orphaned() {
            draft.release(&found, HoldReason::BudgetPending);
            if !found.must_reserve() {
                requeued.put_back.push(job);
            }
        }
        if open.is_queued() || open.is_orphaned() {
            requeued.waiting.push(found.new.topic);
        }
    }
    Ok(requeued)
});

decide!(RepairSlots, |verb, draft| {
    let mut found = SlotDrift::default();
    // Counted again at the beginning only: no later page sees all slots.
    let counted = if verb.after.is_none() { release_unused_slots(draft, &mut found)? } else { None };
    let all = rows::of_tenant(&verb.tenant);
    let until = verb.after.map_or_else(|| end_of(&all), |run| rows::run(&verb.tenant, run));
    let runs = draft.view.scan(Table::Heads, &all, &until, Pick::Last(verb.limit.saturating_add(1)))?;
    let given = give_missing_slots(draft, &runs[..runs.len().min(verb.limit)], &mut found)?;
    if runs.len() > verb.limit {
        let last = runs.get(verb.limit.saturating_sub(1));
        found.next = last.and_then(|row| rows::last_part(&row.key).parse().ok());
    }
    let written = draft.tenant()?.runs_active;
    let active = counted.unwrap_or(written) + given;
    if active != written {
        if found.found == 0 {
            // Every run has its slot, and only their number was wrong.
            (found.found, found.repaired) = (1, 1);
        }
        draft.tenant()?.runs_active = active;
    }
    Ok(found)
});

/// Releases the slots of runs that have ended or are missing. Returns how many are left, if one step can count them.
fn release_unused_slots(draft: &mut Draft<'_>, found: &mut SlotDrift) -> Result<Option<u32>, StoreError> {
    let slots = draft.scan_tenant(Table::Active, Pick::First(LOOKED_AT_MAX + 1))?;
    if slots.len() > LOOKED_AT_MAX {
        return Ok(None);
    }
    let mut left = 0;
    for row in slots {
        match draft.read::<Head>(Table::Heads, &row.key) {
            Ok(run) if run.as_ref().is_none_or(|run| run.status.is_final()) => {
                draft.delete(Table::Active, row.key);
                found.found += 1;
                found.repaired += 1;
            }
            // A run that cannot be read may be live.
            Ok(_) | Err(_) => left += 1,
        }
    }
    Ok(Some(left))
}

/// Gives slots to live runs that have none. Returns to how many.
fn give_missing_slots(draft: &mut Draft<'_>, runs: &[Row], found: &mut SlotDrift) -> Result<u32, StoreError> {
    let mut given = 0;
    for row in runs {
        let Ok(head) = parse::<Head>(Table::Heads, &row.key, &row.value) else {
            found.found += 1;
            continue;
        };
        let needs_slot =
            !head.status.is_final() && head.status != RunStatus::Queued && !is_child(draft, &row.key)?;
        if needs_slot && !draft.has(Table::Active, &row.key)? {
            draft.mark(Table::Active, row.key.clone());
            found.found += 1;
            found.repaired += 1;
            given += 1;
        }
    }
    Ok(given)
}

/// Whether the run runs in the slot of its root.
fn is_child(draft: &Draft<'_>, key: &str) -> Result<bool, StoreError> {
    Ok(draft.read::<RunSlots>(Table::RunSlots, key)?.is_some_and(|slots| slots.parent.is_some()))
}

decide!(Retire, |verb, draft| {
    let before = draft.now - verb.unused_for;
    let mut retired = Retired::default();
    for row in draft.scan_tenant(Table::Workers, Pick::First(LOOKED_AT_MAX))? {
        let worker: Option<WorkerRecord> = parse(Table::Workers, &row.key, &row.value).ok();
        let is_unused = worker.is_some_and(|worker| worker.last_seen_at < before);
        if is_unused && retired.workers < verb.limit {
            draft.forget_worker(row.key)?;
            retired.workers += 1;
        }
    }
    // The ids of runs begin with when they were made.
    let until = rows::run(&verb.tenant, RunId::new(before, [0; 10]));
    let all = rows::of_tenant(&verb.tenant);
    let marks = draft.view.scan(Table::DeletedRuns, &all, &until, Pick::First(verb.limit))?;
    retired.deleted_runs = marks.len();
    draft.delete_all(Table::DeletedRuns, marks.into_iter().map(|row| row.key));
    retire_keys(draft, verb, &mut retired)?;
    Ok(retired)
});

fn retire_keys(draft: &mut Draft<'_>, retire: &Retire, retired: &mut Retired) -> Result<(), StoreError> {
    let all = rows::of_tenant(draft.id);
    let from = retire.after.as_ref().map_or_else(|| all.clone(), |after| format!("{all}{after}"));
    let page = Pick::First(retire.limit.saturating_add(1));
    let mut keys = draft.view.scan(Table::IdempotencyKeys, &from, &end_of(&all), page)?;
    let next = keys.split_off(keys.len().min(retire.limit));
    retired.next = next.first().and_then(|row| rows::after_tenant(&row.key)).map(str::to_owned);
    for row in keys {
        let record: Option<KeyRecord> = parse(Table::IdempotencyKeys, &row.key, &row.value).ok();
        if record.is_some_and(|record| !record.is_live(draft.now)) {
            draft.delete(Table::IdempotencyKeys, row.key);
            retired.keys += 1;
        }
    }
    Ok(())
}
