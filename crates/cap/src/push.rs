//! From a claimed job to a packet on its worker's subject.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_backend::jobs::{Claimed, LeaseTerm};
use interlock_control::lease::{Loss, Term};
use interlock_model::meta::{JobMeta, Priority};
use interlock_model::time::millis;
use interlock_model::{Fence, JobId, Tag, TenantId, Timestamp};
use tokio::time::{Instant, timeout};

use crate::edge::Shared;
use crate::wire::{self, Budget, DispatchIdentity, JobMetadata, JobPriority, JobRequest, Payload};

/// Why a claimed job did not go out.
#[derive(Debug, thiserror::Error)]
enum NotPushed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("NATS did not take it: {0}")]
    Nats(String),
    #[error(transparent)]
    Lost(#[from] Loss),
}

/// Jobs that were claimed, could not be pushed, and could not be given back yet.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    waiting: Mutex<Vec<(TenantId, JobId, Fence)>>,
}

/// Pushes jobs that were claimed for their workers by a call made at `asked_at`. What does not go out is given back at
/// once: its lease would keep it from everybody for as long as it lasts. Returns whether all went out.
#[must_use]
pub(crate) async fn push_all(
    shared: &Shared,
    returns: &Returns,
    tenant: &TenantId,
    claimed: Vec<Claimed>,
    asked_at: Instant,
) -> bool {
    let mut all_went_out = true;
    let sent = join_all(claimed.iter().map(|claimed| send_held(shared, tenant, claimed, asked_at))).await;
    let flushed = match timeout(shared.settings.publish_wait, shared.client.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it did not answer in time".to_owned()),
    };
    let mut gone_out = Vec::new();
    for (claimed, sent) in claimed.iter().zip(sent) {
        match sent.and_then(|()| flushed.clone().map_err(NotPushed::Nats)) {
            Ok(()) => {
                shared.tally.jobs_pushed.up();
                gone_out.push(hand_over(shared, tenant, claimed));
            }
            Err(error) => {
                let (job, worker) = (&claimed.job.id, &claimed.lease.worker);
                let fence = claimed.lease.fence.number();
                tracing::warn!(%tenant, run = %job.run, %job, fence, %worker, %error, "a job was not pushed");
                shared.pushed.take_back(&claimed.job.id);
                returns.add(tenant, &claimed.job.id, claimed.lease.fence);
                all_went_out = false;
            }
        }
    }
    join_all(gone_out).await;
    returns.release(shared).await;
    all_went_out
}

/// Makes the lease the worker's. Should that fail, the job is dispatched again when the short lease ends, and the first
/// worker's result is refused: work done twice, counted once.
async fn hand_over(shared: &Shared, tenant: &TenantId, claimed: &Claimed) {
    let term = LeaseTerm::UntilDeadline { otherwise: shared.settings.lease };
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    match shared.results.extend_lease(tenant, job, fence, Some(term)).await {
        // A quick worker has reported already.
        Ok(_) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => {}
        Err(error) => {
            let fence = fence.number();
            tracing::warn!(%tenant, run = %job.run, %job, fence, %error, "a pushed job keeps its short lease");
        }
    }
}

/// Sends under the lock on the job, which is renewed while that takes, and gives up before another can have the job.
async fn send_held(
    shared: &Shared,
    tenant: &TenantId,
    claimed: &Claimed,
    asked_at: Instant,
) -> Result<(), NotPushed> {
    let failures_max = shared.process.settings().locks.job().failures_max.unwrap_or(u32::MAX);
    let term = Term { asked_at, ttl: claimed.lease.ttl, failures_max };
    let leased = (tenant, &claimed.job.id, claimed.lease.fence);
    shared.results.guard_job(leased, term, send(shared, tenant, claimed)).await?
}

async fn send(shared: &Shared, tenant: &TenantId, claimed: &Claimed) -> Result<(), NotPushed> {
    let job = &claimed.job;
    shared.mailbox.point(job.id.run, tenant).await?;
    let pointer = shared.mailbox.put_input(&job.id, &job.input.to_string()).await?;
    let (subject, packet) = request(shared.process.now(), tenant, claimed, pointer);
    // Before it goes out: its result may be back before we are.
    shared.pushed.remember(claimed);
    let published = timeout(shared.settings.publish_wait, shared.client.publish(subject, packet)).await;
    match published {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(NotPushed::Nats(error.to_string())),
        Err(_) => Err(NotPushed::Nats("it did not answer in time".to_owned())),
    }
}

/// The packet for a claimed job, and where it goes: to its worker, or to whoever serves the topic if NATS cannot route
/// to a worker of that name.
fn request(now: Timestamp, tenant: &TenantId, claimed: &Claimed, context_ptr: String) -> (String, Bytes) {
    let (job, lease) = (&claimed.job, &claimed.lease);
    let labels = [
        ("run_id", job.id.run.to_string()),
        ("step_id", job.id.step.to_string()),
        ("attempt", job.id.attempt.to_string()),
    ];
    let left = job.deadline_at.map(|deadline| millis(deadline.since(lease.claimed_at)).max(1));
    let request = JobRequest {
        job_id: job.id.to_string(),
        topic: job.topic.to_string(),
        context_ptr,
        workflow_id: job.workflow.to_string(),
        tenant_id: tenant.to_string(),
        labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        priority: priority(job.meta.priority).into(),
        meta: Some(metadata(tenant, &job.meta)),
        budget: left
            .map(|left| Budget { deadline_ms: i64::try_from(left).unwrap_or(i64::MAX), ..Budget::default() }),
        dispatch: Some(dispatch(&job.id, lease.fence, lease.worker.as_str())),
        ..JobRequest::default()
    };
    let subject = wire::direct_subject(lease.worker.as_str()).unwrap_or_else(|| job.topic.to_string());
    (subject, wire::write(&job.id.run.to_string(), now, Payload::JobRequest(request)))
}

fn priority(priority: Priority) -> JobPriority {
    match priority {
        Priority::Batch => JobPriority::Batch,
        Priority::Interactive => JobPriority::Interactive,
        Priority::Critical => JobPriority::Critical,
    }
}

fn metadata(tenant: &TenantId, meta: &JobMeta) -> JobMetadata {
    let written = |tags: &BTreeSet<Tag>| tags.iter().map(Tag::to_string).collect();
    JobMetadata {
        tenant_id: tenant.to_string(),
        capability: meta.capability.as_ref().map(Tag::to_string).unwrap_or_default(),
        risk_tags: written(&meta.risk_tags),
        requires: written(&meta.requires),
        ..JobMetadata::default()
    }
}

/// Which dispatch of the job is meant; the attempt of the protocol is our fence.
pub(crate) fn dispatch(job: &JobId, fence: Fence, worker: &str) -> DispatchIdentity {
    DispatchIdentity {
        dispatch_id: job.to_string(),
        attempt: fence.number(),
        assigned_worker_id: worker.to_owned(),
    }
}

impl Returns {
    pub(crate) fn add(&self, tenant: &TenantId, job: &JobId, fence: Fence) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((tenant.clone(), job.clone(), fence));
    }

    /// Whether some jobs could not be given back yet: nothing more should be claimed.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Gives back what waits for it. What the store does not answer about waits for the next time.
    pub(crate) async fn release(&self, shared: &Shared) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for (tenant, job, fence) in waiting {
            match shared.results.release(&tenant, &job, fence).await {
                Ok(()) => shared.tally.jobs_given_back.up(),
                Err(StoreError::Unavailable { .. } | StoreError::Damaged { .. }) => {
                    let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.push((tenant, job, fence));
                }
                // It has ended otherwise.
                Err(StoreError::NotFound { .. } | StoreError::Fenced { .. } | StoreError::Conflict(_)) => {}
            }
        }
    }
}
