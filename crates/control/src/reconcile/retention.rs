//! Removes what is certain to be unused, through every tenant.

use std::time::Duration;

use interlock_backend::inspection::{Inspection, Repair};
use interlock_backend::reconcile::Retire;
use interlock_backend::runs::RunFilter;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Invariant, Mending};
use interlock_model::{RunId, TenantId};

use super::ROWS_MAX;
use super::every_tenant::EveryTenant;
use crate::service::Control;

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

pub(super) async fn look(control: &Control) -> Result<Retention, StoreError> {
    let workers = match forget_silent(control).await {
        // A row that cannot be read does not keep the tenants from theirs; the doctor tells of it.
        Err(StoreError::Damaged { .. }) => 0,
        forgotten => forgotten?,
    };
    let mut found = Retention { workers, ..Retention::default() };
    let mut tenants = EveryTenant::from_the_first();
    while let Some(page) = tenants.next_page(control).await? {
        for tenant in &page {
            found.tenants += 1;
            if look_at(control, tenant, &mut found).await.is_err() {
                found.tenants_failed += 1;
            }
        }
    }
    Ok(found)
}

/// Workers on the bus. The edge forgets those that it has heard; this is for what an edge left behind.
async fn forget_silent(control: &Control) -> Result<usize, StoreError> {
    let registry = control.store.registry().await?;
    let before = registry.now - UNUSED_FOR;
    let silent: Vec<_> = registry.workers.iter().filter(|known| known.last_seen_at < before).collect();
    for known in &silent {
        control.store.forget_worker(&known.worker, before).await?;
    }
    Ok(silent.len())
}

async fn look_at(control: &Control, tenant: &TenantId, found: &mut Retention) -> Result<(), StoreError> {
    let mut after = control.key_walks.take(tenant);
    for _ in 0..KEY_PAGES_MAX {
        let asked = Retire { unused_for: UNUSED_FOR, after, limit: ROWS_MAX };
        let retired = control.store.retire(tenant, &asked).await?;
        found.workers += retired.workers;
        found.deleted_runs += retired.deleted_runs;
        found.keys += retired.keys;
        after = retired.next;
        if after.is_none() {
            break;
        }
    }
    if let Some(place) = after {
        control.key_walks.keep(tenant, place);
    }
    found.holds += end_holds(control, tenant).await?;
    match control.settings.run_retention {
        Some(kept_for) => delete_old_runs(control, tenant, kept_for, found).await,
        None => Ok(()),
    }
}

/// A hold that has run out ends with the next word about any lock of its tenant; this is for tenants that say none.
async fn end_holds(control: &Control, tenant: &TenantId) -> Result<usize, StoreError> {
    let (invariant, grace) = (Invariant::LockDebt, Duration::ZERO);
    let page = PageRequest { limit: ROWS_MAX, after: None };
    let mut asked = Inspection { tenant: tenant.clone(), invariant, grace, page };
    let mut ended = 0;
    for _ in 0..LOCK_PAGES_MAX {
        let late = control.store.inspect(&asked).await?;
        for finding in late.items {
            let repair = Repair { tenant: tenant.clone(), invariant, subject: finding.subject, grace };
            ended += usize::from(control.store.mend(&repair).await? == Mending::Mended);
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
    control: &Control,
    tenant: &TenantId,
    kept_for: Duration,
    found: &mut Retention,
) -> Result<(), StoreError> {
    let before = control.clock.now() - kept_for;
    let after = Some(RunId::new(before, [0; 10]).to_string());
    let mut page = PageRequest { limit: RUNS_A_PAGE, after };
    for _ in 0..RUN_PAGES_MAX {
        let runs = control.store.runs(tenant, &RunFilter::default(), &page).await?;
        for run in &runs.items {
            let is_over = run.head.status.is_final() && run.head.completed_at.is_some_and(|at| at < before);
            if is_over && deleted(control, tenant, run.start.run).await? {
                found.runs += 1;
            }
        }
        let Some(next) = runs.next else { return Ok(()) };
        page.after = Some(next);
    }
    Ok(())
}

/// Whether it was still there.
async fn deleted(control: &Control, tenant: &TenantId, run: RunId) -> Result<bool, StoreError> {
    match control.delete_run(tenant, run).await {
        Ok(()) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
