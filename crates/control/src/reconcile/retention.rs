//! Removes what is certain to be unused.

use std::time::Duration;

use interlock_backend::inspection::{Inspect, Repair};
use interlock_backend::reconcile::Retire;
use interlock_backend::runs::RunFilter;
use interlock_backend::verbs::{ForgetNatsWorker, ListRuns, ReadRegistry};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Invariant, RepairOutcome};
use interlock_model::{RunId, TenantId};

use super::ticking::TickReport;
use super::{ROWS_MAX, Reconcilers};

/// A worker or a mark that was not used for this long: it does not return, or loses nothing by being written again.
const UNUSED_FOR: Duration = Duration::from_hours(24);

/// Pages of old runs that one scan reads per tenant.
const RUN_PAGES_MAX: usize = 10;
const RUNS_A_PAGE: usize = 100;

/// Pages of locks that one scan reads per tenant.
const LOCK_PAGES_MAX: usize = 20;

/// Pages of keys that one scan reads per tenant, from where the last scan stopped.
const KEY_PAGES_MAX: usize = 4;

/// Forgets NATS workers that no replica has heard of for long. Returns how many.
pub(super) async fn forget_silent(reconcilers: &Reconcilers) -> Result<usize, StoreError> {
    let registry = match reconcilers.process.call(ReadRegistry).await {
        // An unreadable row does not stop the scan of the tenants; the doctor reports it.
        Err(StoreError::Damaged { .. }) => return Ok(0),
        registry => registry?,
    };
    let before = registry.now - UNUSED_FOR;
    let silent: Vec<_> = registry.workers.iter().filter(|known| known.last_seen_at < before).collect();
    for known in &silent {
        let forget = ForgetNatsWorker { worker: known.worker.clone(), unless_after: before };
        reconcilers.process.call(forget).await?;
    }
    Ok(silent.len())
}

pub(super) async fn clean(
    reconcilers: &Reconcilers,
    tenant: &TenantId,
    report: &mut TickReport,
) -> Result<(), StoreError> {
    let mut after = reconcilers.key_walks.take(tenant);
    for _ in 0..KEY_PAGES_MAX {
        let retire = Retire { tenant: tenant.clone(), unused_for: UNUSED_FOR, after, limit: ROWS_MAX };
        let retired = reconcilers.process.call(retire).await?;
        report.workers_forgotten += retired.workers;
        report.marks_removed += retired.deleted_runs;
        report.keys_removed += retired.keys;
        after = retired.next;
        if after.is_none() {
            break;
        }
    }
    if let Some(place) = after {
        reconcilers.key_walks.keep(tenant, place);
    }
    report.leases_ended += end_leases(reconcilers, tenant).await?;
    match reconcilers.process.settings.run_retention {
        Some(kept_for) => delete_old_runs(reconcilers, tenant, kept_for, report).await,
        None => Ok(()),
    }
}

/// Ends expired leases of locks. The next request for any lock of the tenant would do it too; this is for tenants that make
/// none.
async fn end_leases(reconcilers: &Reconcilers, tenant: &TenantId) -> Result<usize, StoreError> {
    let (invariant, grace) = (Invariant::LockDebt, Duration::ZERO);
    let page = PageRequest { limit: ROWS_MAX, after: None };
    let mut asked = Inspect { tenant: tenant.clone(), invariant, grace, page };
    let mut ended = 0;
    for _ in 0..LOCK_PAGES_MAX {
        let late = reconcilers.process.call(asked.clone()).await?;
        for finding in late.items {
            let repair = Repair { tenant: tenant.clone(), invariant, subject: finding.subject, grace };
            let repaired = reconcilers.process.call(repair).await?;
            ended += usize::from(repaired == RepairOutcome::Repaired);
        }
        asked.page.after = late.next;
        if asked.page.after.is_none() {
            break;
        }
    }
    Ok(ended)
}

/// Runs are listed by their start: one that started before the cut may have ended after it, or may be live.
async fn delete_old_runs(
    reconcilers: &Reconcilers,
    tenant: &TenantId,
    kept_for: Duration,
    report: &mut TickReport,
) -> Result<(), StoreError> {
    let before = reconcilers.process.now() - kept_for;
    let after = Some(RunId::new(before, [0; 10]).to_string());
    let mut page = PageRequest { limit: RUNS_A_PAGE, after };
    for _ in 0..RUN_PAGES_MAX {
        let filter = RunFilter::default();
        let list = ListRuns { tenant: tenant.clone(), filter, page: page.clone() };
        let runs = reconcilers.process.call(list).await?;
        for run in &runs.items {
            let is_over = run.head.status.is_final() && run.head.completed_at.is_some_and(|at| at < before);
            if is_over && deleted(reconcilers, tenant, run.start.run).await? {
                report.runs_deleted += 1;
            }
        }
        let Some(next) = runs.next else { return Ok(()) };
        page.after = Some(next);
    }
    Ok(())
}

/// Whether the run still existed.
async fn deleted(reconcilers: &Reconcilers, tenant: &TenantId, run: RunId) -> Result<bool, StoreError> {
    match reconcilers.deletion.delete(tenant, run).await {
        Ok(()) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
