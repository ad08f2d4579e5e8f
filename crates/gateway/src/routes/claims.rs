//! Workers claim jobs and report on them, each report under the fence of its lease.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_api::jobs::{
    Accepted, ClaimAnswer, ClaimRequest, ClaimedJob, CompleteRequest, FailRequest, HeartbeatAnswer,
    HeartbeatRequest, ProgressRequest, ReleaseJobRequest,
};
use interlock_backend::jobs::{Claim, Claimed, Heartbeat, LeaseTerm, Progress};
use interlock_model::budget::{JobUsage, read_usage};
use interlock_model::job::{JobOutcome, NewJob};
use interlock_model::lease::FENCE_MAX;
use interlock_model::scheduling::Edge;
use interlock_model::time::millis;
use interlock_model::trace::TraceParent;
use interlock_model::{Fence, JobId, WorkerId};

use super::{Answer, Caller, Json, Named, Payload, Permission, Refusal, bounded, bounded_text, endpoints};
use crate::metrics::FencedWrite;
use crate::path::SelfNamed;

const TOPICS_MAX: usize = 64;
const JOBS_MAX: u32 = 100;
const WAIT_MS_MAX: u64 = 60_000;
const LEASE_MS_MAX: u64 = 3_600_000;
const RETRY_AFTER_MS_MAX: u64 = 86_400_000;
const CAPABILITIES_MAX: usize = 64;
const CAPABILITY_CHARS_MAX: usize = 128;
const MESSAGE_CHARS_MAX: usize = 4_096;

endpoints!("workers": claim, heartbeat, progress, complete, fail, release);

/// Claims jobs, and waits for the first to arrive.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/claim", request_body = ClaimRequest,
    params(("worker" = WorkerId, Path, description = "The name that the worker gives itself")),
    responses((status = 200, body = ClaimAnswer)))]
async fn claim(
    caller: Caller,
    SelfNamed(worker): SelfNamed,
    Payload(request): Payload<ClaimRequest>,
) -> Answer<ClaimAnswer> {
    caller.may(Permission::Work)?;
    let app = caller.app.clone();
    let (claim, wait) = within_bounds(caller, worker, request)?;
    // A closing gateway ends the wait, not the claim: a job that was leased must reach its worker.
    let claimed = app.stages.results.claim(claim, wait, &app.closing).await?;
    let view = |claimed: Claimed| {
        let traceparent = app.stages.process.traces().for_worker(&claimed.job.id, claimed.job.trace);
        claimed_job(claimed, traceparent)
    };
    Ok(Json(ClaimAnswer { jobs: claimed.into_iter().map(view).collect() }))
}

fn within_bounds(
    caller: Caller,
    worker: WorkerId,
    request: ClaimRequest,
) -> Result<(Claim, Duration), Refusal> {
    let ClaimRequest { topics, max_jobs, wait_ms, lease_ms, capabilities } = request;
    bounded("topics", topics.len() as u64, (1, TOPICS_MAX as u64))?;
    bounded("max_jobs", max_jobs.into(), (1, JOBS_MAX.into()))?;
    bounded("wait_ms", wait_ms, (0, WAIT_MS_MAX))?;
    let lease = match lease_ms {
        None => caller.app.stages.process.settings().job_lease,
        Some(lease_ms) => {
            bounded("lease_ms", lease_ms, (millis(caller.app.settings.lease_min), LEASE_MS_MAX))?;
            Duration::from_millis(lease_ms)
        }
    };
    bounded("capabilities", capabilities.len() as u64, (0, CAPABILITIES_MAX as u64))?;
    for capability in &capabilities {
        bounded_text("a capability", capability, CAPABILITY_CHARS_MAX)?;
    }
    let claim = Claim {
        tenant: caller.tenant,
        worker,
        topics,
        capabilities,
        jobs_max: max_jobs as usize,
        term: LeaseTerm::For(lease),
        edge: Edge::Http,
    };
    Ok((claim, Duration::from_millis(wait_ms)))
}

fn claimed_job(claimed: Claimed, traceparent: Option<TraceParent>) -> ClaimedJob {
    let Claimed { job: NewJob { id, topic, input, meta, .. }, lease, queued_at: _ } = claimed;
    ClaimedJob {
        run_id: id.run,
        step_id: id.step.clone(),
        attempt: id.attempt,
        job_id: id,
        topic,
        fence: lease.fence.number(),
        input,
        lease_ms: millis(lease.ttl),
        deadline_ms: Some(lease.deadline_at.unwrap_or(lease.expires_at).as_millis()),
        labels: meta.labels,
        traceparent,
    }
}

/// Renews the lease, and says whether the job was cancelled.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/heartbeat", request_body = HeartbeatRequest,
    responses((status = 200, body = HeartbeatAnswer),
    (status = 409, description = "The fence is stale, or the job has ended (`stale_fence`)")))]
async fn heartbeat(
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(request): Payload<HeartbeatRequest>,
) -> Answer<HeartbeatAnswer> {
    caller.may_for_run(Permission::Work, job.run).await?;
    let app = &caller.app;
    let answer = app.stages.results.heartbeat(&caller.tenant, &job, fence(request.fence)?).await;
    let (lease_ms, cancel_requested) = match app.metrics.fenced(FencedWrite::Heartbeat, answer)? {
        Heartbeat::Extended { lease, expires_at: _ } => (millis(lease), false),
        Heartbeat::CancelRequested => (0, true),
    };
    Ok(Json(HeartbeatAnswer { lease_ms, cancel_requested }))
}

/// Reports the progress of the job.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/progress", request_body = ProgressRequest,
    responses((status = 200, body = Accepted),
    (status = 409, description = "The fence is stale, or the job has ended (`stale_fence`)")))]
async fn progress(
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(request): Payload<ProgressRequest>,
) -> Answer<Accepted> {
    caller.may_for_run(Permission::Work, job.run).await?;
    let ProgressRequest { fence: held, percent, message } = request;
    bounded("percent", percent.into(), (0, 100))?;
    bounded_text("message", message.as_deref().unwrap_or_default(), MESSAGE_CHARS_MAX)?;
    let (app, progress) = (&caller.app, Progress { percent, message });
    let answer = app.stages.results.progress(&caller.tenant, &job, fence(held)?, progress).await;
    app.metrics.fenced(FencedWrite::Progress, answer)?;
    Ok(Json(Accepted {}))
}

/// Ends the job with its output.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/complete", request_body = CompleteRequest,
    responses((status = 200, body = Accepted),
    (status = 409, description = "The fence is stale, or the job has ended (`stale_fence`)")))]
async fn complete(
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(request): Payload<CompleteRequest>,
) -> Answer<Accepted> {
    caller.may_for_run(Permission::Work, job.run).await?;
    let outcome = JobOutcome::completed(request.output).with_usage(usage_of(request.usage)?);
    submit_result(FencedWrite::Complete, caller, (job, fence(request.fence)?), outcome).await
}

/// Ends the job with an error.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/fail", request_body = FailRequest,
    responses((status = 200, body = Accepted),
    (status = 409, description = "The fence is stale, or the job has ended (`stale_fence`)")))]
async fn fail(
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(request): Payload<FailRequest>,
) -> Answer<Accepted> {
    caller.may_for_run(Permission::Work, job.run).await?;
    let FailRequest { fence: held, error, retryable, retry_after_ms, usage } = request;
    bounded("retry_after_ms", retry_after_ms.unwrap_or_default(), (0, RETRY_AFTER_MS_MAX))?;
    let outcome = JobOutcome::failed(error, retryable).retried_after(retry_after_ms);
    let outcome = outcome.with_usage(usage_of(usage)?);
    submit_result(FencedWrite::Fail, caller, (job, fence(held)?), outcome).await
}

/// Hands the job to the next worker at once. Not a failure, up to ten times per step.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/release", request_body = ReleaseJobRequest,
    responses((status = 200, body = Accepted),
    (status = 409, description = "The fence is stale, or the job has ended (`stale_fence`)")))]
async fn release(
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(request): Payload<ReleaseJobRequest>,
) -> Answer<Accepted> {
    caller.may_for_run(Permission::Work, job.run).await?;
    let ReleaseJobRequest { fence: held, reason } = request;
    bounded("reason", reason.len() as u64, (1, MESSAGE_CHARS_MAX as u64))?;
    let outcome = JobOutcome::Released { reason };
    submit_result(FencedWrite::Release, caller, (job, fence(held)?), outcome).await
}

/// What the worker says that it has spent.
fn usage_of(written: BTreeMap<String, String>) -> Result<JobUsage, Refusal> {
    read_usage(written).map_err(|error| Refusal::invalid(error.to_string()))
}

/// To the end, because under the strategy `lock` a result acquires its run.
async fn submit_result(
    write: FencedWrite,
    caller: Caller,
    (job, fence): (JobId, Fence),
    outcome: JobOutcome,
) -> Answer<Accepted> {
    let app = caller.app.clone();
    let submit = async move {
        let answer = caller.app.stages.results.submit(&caller.tenant, &job, fence, outcome).await;
        caller.app.metrics.fenced(write, answer)
    };
    app.to_the_end(submit).await?;
    Ok(Json(Accepted {}))
}

fn fence(number: u64) -> Result<Fence, Refusal> {
    bounded("fence", number, (0, FENCE_MAX))?;
    Ok(Fence::new(number))
}
