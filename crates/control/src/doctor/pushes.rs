//! Jobs that were pushed to workers on NATS which have not confirmed them.

use interlock_backend::verbs::{ListJobs, ReadRegistry};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Finding, Invariant};
use interlock_model::job::JobState;
use interlock_model::{TenantId, Timestamp};

use super::Doctor;

const JOBS_A_PAGE: usize = 500;

/// The store's time; none if there are no workers on NATS, and so no pushes.
pub(super) async fn time_of_pushes(doctor: &Doctor) -> Result<Option<Timestamp>, StoreError> {
    let registry = doctor.process.call(ReadRegistry).await?;
    Ok(Some(registry.now).filter(|_| !registry.workers.is_empty()))
}

/// Jobs of the tenant that have been unconfirmed for longer than the lease of a dispatch.
pub(super) async fn unconfirmed(
    doctor: &Doctor,
    tenant: &TenantId,
    now: Timestamp,
) -> Result<Vec<Finding>, StoreError> {
    let patience = doctor.process.settings().locks.job().ttl;
    let silence = doctor.process.settings().worker_silence.as_secs();
    let mut findings = Vec::new();
    let mut page = PageRequest { limit: JOBS_A_PAGE, after: None };
    loop {
        let state = Some(JobState::Running);
        let found =
            doctor.process.call(ListJobs { tenant: tenant.clone(), state, page: page.clone() }).await?;
        for (job, lease) in found.items.into_iter().filter_map(|view| Some((view.job.new.id, view.lease?))) {
            let age = now.since(lease.claimed_at);
            if doctor.process.is_unconfirmed(&lease) && age > patience {
                let detail = format!(
                    "worker {} has not confirmed this job, which was pushed to it {} s ago; it is dispatched again once \
                     three heartbeats of the worker do not count it, or the worker is silent for {silence} s",
                    lease.worker,
                    age.as_secs(),
                );
                findings.push(Finding {
                    invariant: Invariant::PushUnconfirmed,
                    tenant: Some(tenant.clone()),
                    subject: job.to_string(),
                    detail,
                    is_repairable: false,
                });
            }
        }
        page.after = found.next;
        if page.after.is_none() {
            return Ok(findings);
        }
    }
}
