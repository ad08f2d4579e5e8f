//! Workers on the bus that nobody hears of any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Finding, Invariant, Mending};
use interlock_model::job::JobState;
use interlock_model::{TenantId, Timestamp, WorkerId};

use super::installation::finding;
use crate::reconcile::EveryTenant;
use crate::service::Control;

/// Whoever watches over workers on the bus has taken the jobs of one that was silent for so long.
const SILENCE: Duration = Duration::from_mins(2);

const JOBS_A_PAGE: usize = 500;

/// Silent workers that hold jobs.
pub(super) async fn silent(control: &Control) -> Result<Vec<Finding>, StoreError> {
    let silent = silent_since(control).await?;
    if silent.is_empty() {
        return Ok(Vec::new());
    }
    let mut holding = BTreeSet::new();
    let mut all = EveryTenant::from_the_first();
    while let Some(tenants) = all.next_page(control).await? {
        for tenant in &tenants {
            holding.extend(holders(control, tenant).await?);
        }
    }
    let late = silent.into_iter().filter(|(worker, _)| holding.contains(worker));
    let told = late.map(|(worker, since)| {
        let detail = format!("the worker was last heard of at {since}, and still holds jobs");
        finding(Invariant::WorkerSilent, worker.as_str(), detail, true)
    });
    Ok(told.collect())
}

async fn silent_since(control: &Control) -> Result<BTreeMap<WorkerId, Timestamp>, StoreError> {
    let registry = control.store.registry().await?;
    let silent =
        registry.workers.into_iter().filter(|known| registry.now.since(known.last_seen_at) > SILENCE);
    Ok(silent.map(|known| (known.worker, known.last_seen_at)).collect())
}

/// Who holds jobs of this tenant.
async fn holders(control: &Control, tenant: &TenantId) -> Result<BTreeSet<WorkerId>, StoreError> {
    let mut holders = BTreeSet::new();
    let mut page = PageRequest { limit: JOBS_A_PAGE, after: None };
    loop {
        let found = control.store.jobs(tenant, Some(JobState::Running), &page).await?;
        holders.extend(found.items.into_iter().filter_map(|job| job.lease).map(|lease| lease.worker));
        page.after = found.next;
        if page.after.is_none() {
            return Ok(holders);
        }
    }
}

/// Ends what a silent worker holds.
pub(super) async fn end(control: &Control, subject: &str) -> Result<Mending, StoreError> {
    let Ok(worker) = subject.parse::<WorkerId>() else { return Ok(Mending::NothingToDo) };
    if !silent_since(control).await?.contains_key(&worker) {
        return Ok(Mending::NothingToDo);
    }
    let ended = control.abandon(&worker).await?;
    Ok(if ended > 0 { Mending::Mended } else { Mending::NothingToDo })
}
