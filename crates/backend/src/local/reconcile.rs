//! What the slow loops do to one tenant at a time.

use async_trait::async_trait;
use interlock_model::admission::KeyRecord;
use interlock_model::job::{Job, JobLease, OpenJob};
use interlock_model::run::Head;
use interlock_model::{JobId, RunId, TenantId, Timestamp};

use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, end_of, parse, read, scan_prefix};
use super::{rows, slots};
use crate::StoreError;
use crate::reconcile::{LOOKED_AT_MAX, ReconcileStore, Replayed, Retire, Retired, SlotDrift};
use crate::workers::WorkerRecord;

fn leases_run_out(
    view: &dyn View,
    now: Timestamp,
    id: &TenantId,
    limit: usize,
) -> Result<Vec<(JobId, JobLease)>, StoreError> {
    let due =
        view.scan(Table::JobExpiries, &rows::of_tenant(id), &rows::after(id, now), Pick::First(limit))?;
    let mut found = Vec::with_capacity(due.len());
    for row in due {
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        if let Some(lease) = read::<JobLease>(view, Table::JobLeases, &rows::job(id, &job))? {
            found.push((job, lease));
        }
    }
    Ok(found)
}

fn replay(view: &dyn View, id: &TenantId, limit: usize) -> Result<Decision<Replayed>, StoreError> {
    let mut changes = Changes::default();
    let mut answer = Replayed::default();
    for row in scan_prefix(view, Table::JobListing, &rows::of_tenant(id), Pick::Last(limit))? {
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        let key = rows::job(id, &job);
        // One that cannot be read does not keep the others waiting.
        let Ok(Some(found)) = read::<Job>(view, Table::Jobs, &key) else { continue };
        let Ok(lease) = read::<JobLease>(view, Table::JobLeases, &key) else { continue };
        if found.end.is_some() {
            continue;
        }
        let place = rows::queued(id, &found.new, found.created_at);
        let open = OpenJob {
            lease: lease.as_ref(),
            is_in_queue: view.get(Table::Queue, &place)?.is_some(),
            is_held: view.get(Table::Held, &key)?.is_some(),
        };
        if open.is_orphaned() {
            changes.mark(Table::Queue, place);
            answer.put_back.push(job);
        }
        if open.is_queued() || open.is_orphaned() {
            answer.waiting.push(found.new.topic);
        }
    }
    Ok(Decision { answer, changes })
}

fn mend_slots(
    view: &dyn View,
    id: &TenantId,
    after: Option<RunId>,
    limit: usize,
) -> Result<Decision<SlotDrift>, StoreError> {
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    let mut drift = SlotDrift::default();
    let mut held = None;
    if after.is_none() {
        held = take_back(view, &mut changes, id, &mut drift)?;
    }
    let until = after.map_or_else(|| end_of(&rows::of_tenant(id)), |run| rows::run(id, run));
    let page = Pick::Last(limit.saturating_add(1));
    let runs = view.scan(Table::Heads, &rows::of_tenant(id), &until, page)?;
    let given = give(view, &mut changes, &runs[..runs.len().min(limit)], &mut drift)?;
    if runs.len() > limit {
        drift.next = runs.get(limit.saturating_sub(1)).and_then(|row| rows::last_part(&row.key).parse().ok());
    }
    let active = match held {
        Some(held) => held + given,
        None => tenant.runs_active + given,
    };
    if active != tenant.runs_active {
        if drift.found == 0 {
            // Every run has its slot, and only their number was wrong.
            (drift.found, drift.mended) = (1, 1);
        }
        tenant.runs_active = active;
        changes.put(Table::Tenants, id.as_str(), &tenant);
    }
    Ok(Decision { answer: drift, changes })
}

/// Takes the slots back whose runs have ended or are gone. How many are left, if that many can be counted in one step.
fn take_back(
    view: &dyn View,
    changes: &mut Changes,
    id: &TenantId,
    drift: &mut SlotDrift,
) -> Result<Option<u32>, StoreError> {
    let held = scan_prefix(view, Table::Active, &rows::of_tenant(id), Pick::First(LOOKED_AT_MAX + 1))?;
    if held.len() > LOOKED_AT_MAX {
        return Ok(None);
    }
    let mut left = 0;
    for row in held {
        match read::<Head>(view, Table::Heads, &row.key) {
            Ok(run) if run.as_ref().is_none_or(|run| run.status.is_final()) => {
                changes.delete(Table::Active, row.key);
                drift.found += 1;
                drift.mended += 1;
            }
            // What cannot be read may live.
            Ok(_) | Err(_) => left += 1,
        }
    }
    Ok(Some(left))
}

/// Gives slots to live runs that have none. Returns to how many.
fn give(
    view: &dyn View,
    changes: &mut Changes,
    runs: &[super::tables::Row],
    drift: &mut SlotDrift,
) -> Result<u32, StoreError> {
    let mut given = 0;
    for row in runs {
        let Ok(head) = parse::<Head>(Table::Heads, &row.key, &row.value) else {
            drift.found += 1;
            continue;
        };
        if !head.status.is_final() && view.get(Table::Active, &row.key)?.is_none() {
            changes.mark(Table::Active, row.key.clone());
            drift.found += 1;
            drift.mended += 1;
            given += 1;
        }
    }
    Ok(given)
}

fn retire(
    view: &dyn View,
    now: Timestamp,
    id: &TenantId,
    retire: &Retire,
) -> Result<Decision<Retired>, StoreError> {
    let mut changes = Changes::default();
    let before = now - retire.unused_for;
    let mut answer = Retired::default();
    for row in scan_prefix(view, Table::Workers, &rows::of_tenant(id), Pick::First(LOOKED_AT_MAX))? {
        let worker: Option<WorkerRecord> = parse(Table::Workers, &row.key, &row.value).ok();
        let is_unused = worker.is_some_and(|worker| worker.last_seen_at < before);
        if is_unused && answer.workers < retire.limit {
            changes.delete(Table::Workers, row.key);
            answer.workers += 1;
        }
    }
    // The ids of runs begin with when they were made.
    let until = rows::run(id, RunId::new(before, [0; 10]));
    let marks = view.scan(Table::DeletedRuns, &rows::of_tenant(id), &until, Pick::First(retire.limit))?;
    answer.deleted_runs = marks.len();
    for row in marks {
        changes.delete(Table::DeletedRuns, row.key);
    }
    retire_keys(view, now, (id, retire), (&mut changes, &mut answer))?;
    Ok(Decision { answer, changes })
}

fn retire_keys(
    view: &dyn View,
    now: Timestamp,
    (id, retire): (&TenantId, &Retire),
    (changes, answer): (&mut Changes, &mut Retired),
) -> Result<(), StoreError> {
    let all = rows::of_tenant(id);
    let from = retire.after.as_ref().map_or_else(|| all.clone(), |after| format!("{all}{after}"));
    let page = Pick::First(retire.limit.saturating_add(1));
    let mut keys = view.scan(Table::IdempotencyKeys, &from, &end_of(&all), page)?;
    let next = keys.split_off(keys.len().min(retire.limit));
    answer.next = next.first().and_then(|row| rows::after_tenant(&row.key)).map(str::to_owned);
    for row in keys {
        let record: Option<KeyRecord> = parse(Table::IdempotencyKeys, &row.key, &row.value).ok();
        if record.is_some_and(|record| !record.is_live(now)) {
            changes.delete(Table::IdempotencyKeys, row.key);
            answer.keys += 1;
        }
    }
    Ok(())
}

#[async_trait]
impl<E: Executor> ReconcileStore for LocalStore<E> {
    async fn leases_run_out(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<(JobId, JobLease)>, StoreError> {
        let tenant = tenant.clone();
        let look = move |view: &dyn View, now| leases_run_out(view, now, &tenant, limit);
        self.read("look for leases that have run out", look).await
    }

    async fn replay(&self, tenant: &TenantId, limit: usize) -> Result<Replayed, StoreError> {
        let tenant = tenant.clone();
        self.write("replay waiting jobs", move |view, _| replay(view, &tenant, limit)).await
    }

    async fn mend_slots(
        &self,
        tenant: &TenantId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<SlotDrift, StoreError> {
        let tenant = tenant.clone();
        self.write("compare slots with runs", move |view, _| mend_slots(view, &tenant, after, limit)).await
    }

    async fn retire(&self, tenant: &TenantId, asked: &Retire) -> Result<Retired, StoreError> {
        let (tenant, asked) = (tenant.clone(), asked.clone());
        self.write("remove what is unused", move |view, now| retire(view, now, &tenant, &asked)).await
    }
}
