//! Acts on what is known about pushes. Until its worker is known to have it, a job has only the short lease of a dispatch;
//! then it gets the lease of its step. A push that is presumed lost is dispatched again.

use std::sync::Arc;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use interlock_backend::StoreError;
use interlock_backend::jobs::{Heartbeat, LeaseTerm};
use interlock_backend::verbs::ReadJob;
use interlock_model::{Fence, WorkerId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;
use crate::push::DispatchedJob;
use crate::wire::{self, JobRequest, Payload, Received};

/// Learns from packets that other replicas act on, until `shutdown`.
pub(crate) async fn watch(shared: Arc<Shared>, mut packets: Subscriber, shutdown: CancellationToken) {
    while let Some(Some(message)) = shutdown.run_until_cancelled(packets.next()).await {
        let Ok(Received { sender, payload }) = wire::read(&message.payload) else { continue };
        match payload {
            Payload::Handshake(handshake) if wire::same_name(&sender, &handshake.component_id).is_ok() => {
                if let Ok(worker) = handshake.component_id.parse() {
                    shared.confirmations.forget_worker(&worker);
                }
            }
            Payload::Heartbeat(beat) if wire::same_name(&sender, &beat.worker_id).is_ok() => {
                let jobs = u32::try_from(beat.active_jobs).unwrap_or(0);
                if let Ok(worker) = beat.worker_id.parse() {
                    hear(&shared, &worker, jobs).await;
                }
            }
            Payload::JobRequest(request) => see_push(&shared, request),
            Payload::Handshake(_)
            | Payload::Heartbeat(_)
            | Payload::JobResult(_)
            | Payload::JobProgress(_)
            | Payload::JobCancel(_)
            | Payload::Alert(_)
            | Payload::WorkerHandshakeChallengeRequest(_)
            | Payload::WorkerHandshakeChallenge(_)
            | Payload::WorkerHandshakeAuthenticate(_)
            | Payload::WorkerHandshakeResult(_) => {}
        }
    }
}

fn see_push(shared: &Shared, request: JobRequest) {
    let Some(dispatch) = request.dispatch else { return };
    let (Ok(tenant), Ok(job), Ok(worker)) =
        (request.tenant_id.parse(), request.job_id.parse(), dispatch.assigned_worker_id.parse())
    else {
        return;
    };
    let pushed = DispatchedJob { tenant, job, fence: Fence::new(dispatch.attempt) };
    let (now, lease) = (Instant::now(), shared.settings.lease);
    shared.confirmations.see_push(pushed, worker, (now, now + lease));
}

async fn hear(shared: &Shared, worker: &WorkerId, jobs_active: u32) {
    let heard = shared.confirmations.hear(worker, jobs_active, Instant::now(), shared.settings.settling);
    for pushed in &heard.confirmed {
        confirm(shared, pushed).await;
    }
    if let Err(error) = dispatch_again(shared, worker, &heard.missing).await {
        tracing::warn!(%worker, %error, "lost pushes cannot be dispatched again yet; retrying");
    }
}

/// Extends the lease of a job to its whole step.
pub(crate) async fn confirm(shared: &Shared, pushed: &DispatchedJob) {
    let term = LeaseTerm::UntilDeadline { otherwise: shared.settings.lease };
    extend(shared, pushed, Some(term)).await;
}

/// Extends the lease of a job as long as nothing is known about its push.
async fn extend(shared: &Shared, pushed: &DispatchedJob, term: Option<LeaseTerm>) {
    let DispatchedJob { tenant, job, fence } = pushed;
    match shared.control.results.extend_lease(tenant, job, *fence, term).await {
        Ok(Heartbeat::Extended { lease, expires_at }) => {
            shared.pushed.extend(job, expires_at);
            shared.confirmations.extend(job, Instant::now() + lease, term.is_some());
        }
        // A fast worker has already reported.
        Ok(Heartbeat::CancelRequested) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => {
            shared.confirmations.forget(job);
        }
        Err(error) => {
            let fence = fence.number();
            tracing::warn!(%tenant, run = %job.run, %job, fence, %error, "a pushed job keeps its short lease");
        }
    }
}

/// Dispatches the jobs of these pushes again. Their fences are raised, so that a late result of the worker is refused.
async fn dispatch_again(
    shared: &Shared,
    worker: &WorkerId,
    missing: &[DispatchedJob],
) -> Result<(), StoreError> {
    if missing.is_empty() {
        return Ok(());
    }
    // The heartbeat may lack other jobs, which have ended unnoticed. Then the next heartbeat decides.
    let mut is_certain = true;
    for pushed in shared.confirmations.of_worker(worker) {
        is_certain &= is_outstanding(shared, &pushed).await?;
    }
    if !is_certain {
        return Ok(());
    }
    for DispatchedJob { tenant, job, fence } in missing {
        match shared.control.results.release(tenant, job, *fence).await {
            Ok(()) => {
                shared.counts.pushes_lost.up();
                let fence = fence.number();
                tracing::warn!(
                    %tenant, run = %job.run, %job, fence, %worker,
                    "the heartbeats of the worker do not count this job; it is dispatched again"
                );
            }
            // It has ended in another way.
            Err(error) if error.is_refusal() => {}
            Err(error) => return Err(error),
        }
        shared.confirmations.presume_lost(job);
        shared.pushed.forget(job);
    }
    Ok(())
}

/// Whether the job is still with its worker, and unconfirmed or confirmed as far as is known here.
async fn is_outstanding(shared: &Shared, pushed: &DispatchedJob) -> Result<bool, StoreError> {
    let DispatchedJob { tenant, job, fence } = pushed;
    let view = shared.store.call(ReadJob { tenant: tenant.clone(), job: job.clone() }).await?;
    let lease = view.and_then(|view| view.lease).filter(|lease| lease.fence == *fence);
    let Some(lease) = lease else {
        shared.confirmations.forget(job);
        return Ok(false);
    };
    // Its progress may have reached another replica.
    let is_news = !shared.control.process.is_unconfirmed(&lease) && shared.confirmations.is_unconfirmed(job);
    if is_news {
        shared.confirmations.extend(job, Instant::now() + lease.ttl, true);
    }
    Ok(!is_news)
}

/// Renews the leases of unconfirmed pushes until `shutdown`. After that they are not watched, and count as confirmed.
pub(crate) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let lock = shared.control.process.settings().locks.job();
    let period = lock.renewed_every.unwrap_or(lock.ttl / 3);
    while shutdown.run_until_cancelled(tokio::time::sleep(period)).await.is_some() {
        for pushed in shared.confirmations.unconfirmed() {
            extend(&shared, &pushed, None).await;
        }
    }
    for pushed in shared.confirmations.unconfirmed() {
        confirm(&shared, &pushed).await;
    }
}
