//! Pushes claimed jobs as packets on the subjects of their workers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_backend::jobs::Claimed;
use interlock_control::lease::{Loss, Term};
use interlock_model::job::NewJob;
use interlock_model::meta::{ActorType, JobMeta, Priority, WORKER_LABEL};
use interlock_model::time::millis;
use interlock_model::{Fence, JobId, Tag, TenantId, Timestamp};
use tokio::time::{Instant, timeout};

use crate::confirming;
use crate::edge::Shared;
use crate::wire::{self, Budget, DispatchIdentity, JobMetadata, JobPriority, JobRequest, Payload};

/// How long NATS may take to accept a packet.
const PUBLISH_LIMIT: Duration = Duration::from_secs(5);

/// Why a claimed job was not pushed.
#[derive(Debug, thiserror::Error)]
enum NotPushed {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("NATS did not accept it: {0}")]
    Nats(String),
    #[error(transparent)]
    Lost(#[from] Loss),
}

/// A job that was claimed for a NATS worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DispatchedJob {
    pub(crate) tenant: TenantId,
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
}

/// Pushes jobs that a call at `claimed_at` claimed for their workers. Releases those that could not be pushed at once,
/// because their leases would keep them from all workers. Returns whether all were pushed.
#[must_use]
pub(crate) async fn push_all(
    shared: &Shared,
    unpushed: &mut Vec<DispatchedJob>,
    tenant: &TenantId,
    claimed: Vec<Claimed>,
    claimed_at: Instant,
) -> bool {
    let sent =
        join_all(claimed.iter().map(|claimed| send_guarded(shared, tenant, claimed, claimed_at))).await;
    let flushed = in_time(shared.client.flush()).await;
    let mut all_were_pushed = true;
    for (claimed, sent) in claimed.iter().zip(sent) {
        match sent.and(flushed.clone().map_err(NotPushed::Nats)) {
            Ok(()) => {
                shared.counts.jobs_pushed.up();
                if shared.confirmations.is_full() {
                    confirming::confirm(shared, &pushed_job(tenant, claimed)).await;
                }
            }
            Err(error) => {
                let (job, lease) = (&claimed.job.id, &claimed.lease);
                let (worker, fence) = (&lease.worker, lease.fence.number());
                tracing::warn!(%tenant, run = %job.run, %job, fence, %worker, %error, "a job was not pushed");
                shared.pushed.forget(job);
                shared.confirmations.forget(job);
                unpushed.push(pushed_job(tenant, claimed));
                all_were_pushed = false;
            }
        }
    }
    release(shared, unpushed).await;
    all_were_pushed
}

/// Releases jobs. Those about which the store does not answer are kept for the next call.
pub(crate) async fn release(shared: &Shared, unpushed: &mut Vec<DispatchedJob>) {
    for DispatchedJob { tenant, job, fence } in std::mem::take(unpushed) {
        match shared.control.results.release(&tenant, &job, fence).await {
            Ok(()) => shared.counts.jobs_released.up(),
            // It has ended in another way.
            Err(error) if error.is_refusal() => {}
            Err(_) => unpushed.push(DispatchedJob { tenant, job, fence }),
        }
    }
}

/// The error of a NATS operation, or of its timeout.
async fn in_time<E: Display>(operation: impl Future<Output = Result<(), E>>) -> Result<(), String> {
    match timeout(PUBLISH_LIMIT, operation).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it did not answer in time".to_owned()),
    }
}

fn pushed_job(tenant: &TenantId, claimed: &Claimed) -> DispatchedJob {
    DispatchedJob { tenant: tenant.clone(), job: claimed.job.id.clone(), fence: claimed.lease.fence }
}

/// Sends under the job's lease, renews it meanwhile, and gives up before another replica can claim the job.
async fn send_guarded(
    shared: &Shared,
    tenant: &TenantId,
    claimed: &Claimed,
    claimed_at: Instant,
) -> Result<(), NotPushed> {
    let failures_max = shared.control.process.settings().locks.job().failures_max.unwrap_or(u32::MAX);
    let term = Term { asked_at: claimed_at, ttl: claimed.lease.ttl, failures_max };
    let leased = (tenant, &claimed.job.id, claimed.lease.fence);
    shared.control.results.guard_job(leased, term, send(shared, tenant, claimed)).await?
}

async fn send(shared: &Shared, tenant: &TenantId, claimed: &Claimed) -> Result<(), NotPushed> {
    let job = &claimed.job;
    shared.mailbox.point(job.id.run, tenant).await?;
    let pointer = shared.mailbox.put_input(&job.id, &job.input.to_string()).await?;
    let (subject, packet) = request(shared.control.process.now(), tenant, claimed, pointer);
    // Before it is published, because its result may arrive at once.
    shared.pushed.remember(claimed);
    let (pushed, worker) = (pushed_job(tenant, claimed), claimed.lease.worker.clone());
    let now = Instant::now();
    shared.confirmations.push(pushed, worker, (now, now + claimed.lease.ttl));
    in_time(shared.client.publish(subject, packet)).await.map_err(NotPushed::Nats)
}

/// The packet of a claimed job and its subject: that of its worker, or the topic if NATS cannot route to a worker of that
/// name.
fn request(now: Timestamp, tenant: &TenantId, claimed: &Claimed, context_ptr: String) -> (String, Bytes) {
    let (job, lease) = (&claimed.job, &claimed.lease);
    let labels = [
        ("run_id", job.id.run.to_string()),
        ("step_id", job.id.step.to_string()),
        ("attempt", job.id.attempt.to_string()),
    ];
    let left = lease.deadline_at.map(|deadline| millis(deadline.since(lease.claimed_at)).max(1));
    let deadline_ms = left.map(|left| i64::try_from(left).unwrap_or(i64::MAX));
    let request = JobRequest {
        job_id: job.id.to_string(),
        topic: job.topic.to_string(),
        context_ptr,
        workflow_id: job.workflow.to_string(),
        tenant_id: tenant.to_string(),
        labels: labels_of(job, labels),
        adapter_id: job.meta.labels.get(WORKER_LABEL).cloned().unwrap_or_default(),
        priority: priority(job.meta.priority).into(),
        meta: Some(metadata(tenant, &job.meta)),
        budget: deadline_ms.map(|deadline_ms| Budget { deadline_ms, ..Budget::default() }),
        dispatch: Some(dispatch(&job.id, lease.fence, lease.worker.as_str())),
        ..JobRequest::default()
    };
    let subject = wire::direct_subject(lease.worker.as_str());
    (subject, wire::write(&job.id.run.to_string(), now, Payload::JobRequest(request)))
}

/// The labels of the document, and above them those that say which job it is.
fn labels_of(job: &NewJob, own: [(&str, String); 3]) -> BTreeMap<String, String> {
    let written = job.meta.labels.iter().map(|(name, value)| (name.clone(), value.clone()));
    written.chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
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
        actor_id: meta.actor_id.clone().unwrap_or_default(),
        actor_type: actor_type(meta.actor_type).into(),
        idempotency_key: meta.idempotency_key.clone().unwrap_or_default(),
        pack_id: meta.pack_id.clone().unwrap_or_default(),
        labels: meta.labels.clone(),
    }
}

fn actor_type(written: Option<ActorType>) -> wire::ActorType {
    match written {
        None => wire::ActorType::Unspecified,
        Some(ActorType::Human) => wire::ActorType::Human,
        Some(ActorType::Service) => wire::ActorType::Service,
    }
}

/// Identifies a dispatch of the job. The attempt of the protocol is the fence.
pub(crate) fn dispatch(job: &JobId, fence: Fence, worker: &str) -> DispatchIdentity {
    DispatchIdentity {
        dispatch_id: job.to_string(),
        attempt: fence.number(),
        assigned_worker_id: worker.to_owned(),
    }
}
