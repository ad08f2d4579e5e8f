//! NATS workers that have fallen silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use interlock_backend::verbs::{ListJobs, ReadRegistry};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};
use interlock_model::job::JobState;
use interlock_model::{TenantId, Timestamp, WorkerId};

use super::Doctor;
use super::installation::finding;
use crate::every_tenant::EveryTenant;

/// After this long the NATS edge has released the jobs of a silent worker.
const SILENCE: Duration = Duration::from_mins(2);

const JOBS_A_PAGE: usize = 500;

/// Silent workers that hold jobs.
pub(super) async fn silent(doctor: &Doctor) -> Result<Vec<Finding>, StoreError> {
    let silent = silent_since(doctor).await?;
    if silent.is_empty() {
        return Ok(Vec::new());
    }
    let mut holding = BTreeSet::new();
    let mut tenants = EveryTenant::default();
    while let Some(tenant) = tenants.next(&doctor.process).await? {
        holding.extend(holders(doctor, &tenant).await?);
    }
    let late = silent.into_iter().filter(|(worker, _)| holding.contains(worker));
    let findings = late.map(|(worker, since)| {
        let detail = format!("the worker was last heard of at {since}, and still holds jobs");
        finding(Invariant::WorkerSilent, worker.as_str(), detail, true)
    });
    Ok(findings.collect())
}

async fn silent_since(doctor: &Doctor) -> Result<BTreeMap<WorkerId, Timestamp>, StoreError> {
    let registry = doctor.process.call(ReadRegistry).await?;
    let silent =
        registry.workers.into_iter().filter(|known| registry.now.since(known.last_seen_at) > SILENCE);
    Ok(silent.map(|known| (known.worker, known.last_seen_at)).collect())
}

/// Workers that hold jobs of this tenant.
async fn holders(doctor: &Doctor, tenant: &TenantId) -> Result<BTreeSet<WorkerId>, StoreError> {
    let mut holders = BTreeSet::new();
    let mut page = PageRequest { limit: JOBS_A_PAGE, after: None };
    loop {
        let state = Some(JobState::Running);
        let found =
            doctor.process.call(ListJobs { tenant: tenant.clone(), state, page: page.clone() }).await?;
        holders.extend(found.items.into_iter().filter_map(|job| job.lease).map(|lease| lease.worker));
        page.after = found.next;
        if page.after.is_none() {
            return Ok(holders);
        }
    }
}

/// Ends what a silent worker holds.
pub(super) async fn end(doctor: &Doctor, subject: &str) -> Result<RepairOutcome, StoreError> {
    let Ok(worker) = subject.parse::<WorkerId>() else { return Ok(RepairOutcome::NothingToDo) };
    if !silent_since(doctor).await?.contains_key(&worker) {
        return Ok(RepairOutcome::NothingToDo);
    }
    let ended = doctor.workers.abandon(&worker).await?;
    Ok(if ended > 0 { RepairOutcome::Repaired } else { RepairOutcome::NothingToDo })
}
