//! Workers: they claim jobs and report on them, each call under its fence.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use interlock_api::jobs::{
    Accepted, ClaimAnswer, ClaimRequest, CompleteRequest, FailRequest, HeartbeatAnswer, HeartbeatRequest,
    ProgressRequest,
};
use interlock_backend::StoreError;
use interlock_backend::jobs::{Claim, Claimed, Heartbeat, LeaseTerm, Progress};
use interlock_model::job::JobOutcome;
use interlock_model::lease::FENCE_MAX;
use interlock_model::scheduling::Edge;
use interlock_model::time::millis;
use interlock_model::{Fence, JobId, WorkerId};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::bounds::{bounded, bounded_text};
use crate::convert;
use crate::error::Refusal;
use crate::metrics::FencedWrite;
use crate::openapi::Refusals;
use crate::path::{Named, SelfNamed};
use crate::router::Routes;
use crate::state::{App, Shared};

const TOPICS_MAX: usize = 64;
const JOBS_MAX: u32 = 100;
const WAIT_MS_MAX: u64 = 60_000;
const LEASE_MS_MAX: u64 = 3_600_000;
const CAPABILITIES_MAX: usize = 64;
const CAPABILITY_CHARS_MAX: usize = 128;
const MESSAGE_CHARS_MAX: usize = 4_096;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .post("/api/v1/workers/{worker}/claim", claim)
        .post("/api/v1/jobs/{job_id}/heartbeat", heartbeat)
        .post("/api/v1/jobs/{job_id}/progress", progress)
        .post("/api/v1/jobs/{job_id}/complete", complete)
        .post("/api/v1/jobs/{job_id}/fail", fail)
}

/// Asks for jobs, waiting for the first to arrive.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/claim", tag = "workers",
    params(("worker" = String, Path, description = "The name that the worker gives itself")),
    request_body = ClaimRequest, responses((status = 200, body = ClaimAnswer), Refusals))]
pub(crate) async fn claim(
    State(app): State<App>,
    caller: Caller,
    SelfNamed(worker): SelfNamed,
    Payload(asked): Payload<ClaimRequest>,
) -> Answer<ClaimAnswer> {
    caller.may(Permission::Work)?;
    let (claim, wait) = within_bounds(&app, caller, worker, asked)?;
    // A closing gateway ends the wait, not the claim: a job that was leased must reach its worker.
    let claimed = app.results.claim(claim, wait, &app.closing).await?;
    let answered = |claimed: Claimed| {
        let traceparent = app.process.traces().for_worker(&claimed.job.id, claimed.job.trace);
        convert::jobs::claimed(claimed, traceparent)
    };
    Ok(Json(ClaimAnswer { jobs: claimed.into_iter().map(answered).collect() }))
}

fn within_bounds(
    app: &Shared,
    caller: Caller,
    worker: WorkerId,
    asked: ClaimRequest,
) -> Result<(Claim, Duration), Refusal> {
    let ClaimRequest { topics, max_jobs, wait_ms, lease_ms, capabilities } = asked;
    bounded("topics", topics.len() as u64, (1, TOPICS_MAX as u64))?;
    bounded("max_jobs", max_jobs.into(), (1, JOBS_MAX.into()))?;
    bounded("wait_ms", wait_ms, (0, WAIT_MS_MAX))?;
    let lease = match lease_ms {
        None => app.process.settings().job_lease,
        Some(asked) => {
            bounded("lease_ms", asked, (millis(app.settings.lease_min), LEASE_MS_MAX))?;
            Duration::from_millis(asked)
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

/// Says that the worker lives, and asks whether the result is still wanted.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/heartbeat", tag = "workers", params(("job_id" = String, Path)),
    request_body = HeartbeatRequest, responses((status = 200, body = HeartbeatAnswer), Refusals))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(asked): Payload<HeartbeatRequest>,
) -> Answer<HeartbeatAnswer> {
    caller.may(Permission::Work)?;
    let answer = app.results.heartbeat(&caller.tenant, &job, fence(asked.fence)?).await;
    let (lease_ms, cancel_requested) = match fenced(&app, FencedWrite::Heartbeat, answer)? {
        Heartbeat::Extended { lease, expires_at: _ } => (millis(lease), false),
        Heartbeat::CancelRequested => (0, true),
    };
    Ok(Json(HeartbeatAnswer { lease_ms, cancel_requested }))
}

/// Tells how far the worker is.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/progress", tag = "workers", params(("job_id" = String, Path)),
    request_body = ProgressRequest, responses((status = 200, body = Accepted), Refusals))]
pub(crate) async fn progress(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(asked): Payload<ProgressRequest>,
) -> Answer<Accepted> {
    caller.may(Permission::Work)?;
    let ProgressRequest { fence: held, percent, message } = asked;
    bounded("percent", percent.into(), (0, 100))?;
    bounded_text("message", message.as_deref().unwrap_or_default(), MESSAGE_CHARS_MAX)?;
    let told = Progress { percent, message };
    let answer = app.results.progress(&caller.tenant, &job, fence(held)?, told).await;
    fenced(&app, FencedWrite::Progress, answer)?;
    Ok(Json(Accepted {}))
}

/// Ends the job with its output.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/complete", tag = "workers", params(("job_id" = String, Path)),
    request_body = CompleteRequest, responses((status = 200, body = Accepted), Refusals))]
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(asked): Payload<CompleteRequest>,
) -> Answer<Accepted> {
    caller.may(Permission::Work)?;
    let outcome = JobOutcome::Completed { output: asked.output };
    hand_in(&app, FencedWrite::Complete, (caller, job, fence(asked.fence)?), outcome).await
}

/// Ends the job with an error.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/fail", tag = "workers", params(("job_id" = String, Path)),
    request_body = FailRequest, responses((status = 200, body = Accepted), Refusals))]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    Named(job): Named<JobId>,
    Payload(asked): Payload<FailRequest>,
) -> Answer<Accepted> {
    caller.may(Permission::Work)?;
    let FailRequest { fence: held, error, retryable } = asked;
    let outcome = JobOutcome::Failed { error, retryable };
    hand_in(&app, FencedWrite::Fail, (caller, job, fence(held)?), outcome).await
}

/// In a task of its own: whoever has begun a turn of a run ends it, also if the worker hangs up meanwhile.
async fn hand_in(
    app: &Shared,
    write: FencedWrite,
    (caller, job, fence): (Caller, JobId, Fence),
    outcome: JobOutcome,
) -> Answer<Accepted> {
    let results = app.results.clone();
    let task = tokio::spawn(async move { results.submit(&caller.tenant, &job, fence, outcome).await });
    let answer = task.await.map_err(|error| {
        tracing::error!(%error, "a result was not handled because of a bug");
        Refusal::bug()
    })?;
    fenced(app, write, answer)?;
    Ok(Json(Accepted {}))
}

fn fence(number: u64) -> Result<Fence, Refusal> {
    bounded("fence", number, (0, FENCE_MAX))?;
    Ok(Fence::new(number))
}

fn fenced<T>(app: &Shared, write: FencedWrite, answer: Result<T, StoreError>) -> Result<T, Refusal> {
    if matches!(answer, Err(StoreError::Fenced { .. })) {
        app.metrics.fence_rejected(write);
    }
    answer.map_err(Refusal::from)
}
