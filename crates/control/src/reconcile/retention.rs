//! Removes what is certain to be unused, through every tenant.

use interlock_backend::verbs::{ForgetNatsWorker, ListRuns, ReadRegistry};
use std::time::Duration;

use interlock_backend::inspection::{Inspect, Repair};
use interlock_backend::reconcile::Retire;
use interlock_backend::runs::RunFilter;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Invariant, RepairOutcome};
use interlock_model::{RunId, TenantId};

use super::{ROWS_MAX, Reconcilers};
use crate::every_tenant::EveryTenant;

/// What one look removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Rows of workers that were not seen for a day, on the bus and over HTTP.
    pub workers: usize,
    /// Marks of runs that were deleted, and started so long ago that no lost reply could bring them back.
    pub deleted_runs: usize,
    /// Idempotency keys and reservations whose time is over.
    pub keys: usize,
    /// Runs that ended longer ago than they are to be kept.
    pub runs: usize,
    /// Holds of locks that had run out, of tenants that asked for none since.
    pub holds: usize,
}

/// What was not heard of for so long is not coming back under that name, or loses nothing by being written down anew.
const UNUSED_FOR: Duration = Duration::from_hours(24);

/// Pages of old runs that one look goes through for each tenant.
const RUN_PAGES_MAX: usize = 10;
const RUNS_A_PAGE: usize = 100;

/// Pages of locks that one look goes through for each tenant.
const LOCK_PAGES_MAX: usize = 20;

/// Pages of keys that one look goes through for each tenant, from where the last look stopped.
const KEY_PAGES_MAX: usize = 4;

pub(super) async fn look(reconcilers: &Reconcilers) -> Result<Retention, StoreError> {
    let workers = match forget_silent(reconcilers).await {
        // A row that cannot be read does not keep the tenants from theirs; the doctor tells of it.
        Err(StoreError::Damaged { .. }) => 0,
        forgotten => forgotten?,
    };
    let mut found = Retention { workers, ..Retention::default() };
    let mut tenants = EveryTenant::new();
    while let Some(page) = tenants.next_page(&reconcilers.process).await? {
        for tenant in &page {
            found.tenants += 1;
            if look_at(reconcilers, tenant, &mut found).await.is_err() {
                found.tenants_failed += 1;
            }
        }
    }
    Ok(found)
}

/// Workers on the bus. The edge forgets those that it has heard; this is for what an edge left behind.
async fn forget_silent(reconcilers: &Reconcilers) -> Result<usize, StoreError> {
    let registry = reconcilers.process.store.call(ReadRegistry).await?;
    let before = registry.now - UNUSED_FOR;
    let silent: Vec<_> = registry.workers.iter().filter(|known| known.last_seen_at < before).collect();
    for known in &silent {
        reconcilers
            .process
            .store
            .call(ForgetNatsWorker { worker: known.worker.clone(), unless_after: before })
            .await?;
    }
    Ok(silent.len())
}

async fn look_at(
    reconcilers: &Reconcilers,
    tenant: &TenantId,
    found: &mut Retention,
) -> Result<(), StoreError> {
    let mut after = reconcilers.key_walks.take(tenant);
    for _ in 0..KEY_PAGES_MAX {
        let retire = Retire { tenant: tenant.clone(), unused_for: UNUSED_FOR, after, limit: ROWS_MAX };
        let retired = reconcilers.process.store.call(retire).await?;
        found.workers += retired.workers;
        found.deleted_runs += retired.deleted_runs;
        found.keys += retired.keys;
        after = retired.next;
        if after.is_none() {
            break;
        }
    }
    if let Some(place) = after {
        reconcilers.key_walks.keep(tenant, place);
    }
    found.holds += end_holds(reconcilers, tenant).await?;
    match reconcilers.process.settings.run_retention {
        Some(kept_for) => delete_old_runs(reconcilers, tenant, kept_for, found).await,
        None => Ok(()),
    }
}

/// A hold that has run out ends with the next word about any lock of its tenant; this is for tenants that say none.
async fn end_holds(reconcilers: &Reconcilers, tenant: &TenantId) -> Result<usize, StoreError> {
    let (invariant, grace) = (Invariant::LockDebt, Duration::ZERO);
    let page = PageRequest { limit: ROWS_MAX, after: None };
    let mut asked = Inspect { tenant: tenant.clone(), invariant, grace, page };
    let mut ended = 0;
    for _ in 0..LOCK_PAGES_MAX {
        let late = reconcilers.process.store.call(asked.clone()).await?;
        for finding in late.items {
            let repair = Repair { tenant: tenant.clone(), invariant, subject: finding.subject, grace };
            ended +=
                usize::from(reconcilers.process.store.call(repair.clone()).await? == RepairOutcome::Repaired);
        }
        asked.page.after = late.next;
        if asked.page.after.is_none() {
            break;
        }
    }
    Ok(ended)
}

/// Runs are listed by when they were made: those made before the cut may have ended after it, or live.
async fn delete_old_runs(
    reconcilers: &Reconcilers,
    tenant: &TenantId,
    kept_for: Duration,
    found: &mut Retention,
) -> Result<(), StoreError> {
    let before = reconcilers.process.now() - kept_for;
    let after = Some(RunId::new(before, [0; 10]).to_string());
    let mut page = PageRequest { limit: RUNS_A_PAGE, after };
    for _ in 0..RUN_PAGES_MAX {
        let runs = reconcilers
            .process
            .store
            .call(ListRuns { tenant: tenant.clone(), filter: RunFilter::default(), page: page.clone() })
            .await?;
        for run in &runs.items {
            let is_over = run.head.status.is_final() && run.head.completed_at.is_some_and(|at| at < before);
            if is_over && deleted(reconcilers, tenant, run.start.run).await? {
                found.runs += 1;
            }
        }
        let Some(next) = runs.next else { return Ok(()) };
        page.after = Some(next);
    }
    Ok(())
}

/// Whether it was still there.
async fn deleted(reconcilers: &Reconcilers, tenant: &TenantId, run: RunId) -> Result<bool, StoreError> {
    match reconcilers.deletion.delete(tenant, run).await {
        Ok(()) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
