//! Starting runs, and rerunning them. The hot path.

use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderMap;
use interlock_api::runs::{self, StartedRun};
use interlock_api::{Code, Problem};
use interlock_backend::verbs::ReadUsage;
use interlock_control::admission::{RerunRequest, StartError, StartRequest};
use interlock_model::admission::StartOutcome;
use interlock_model::trace::TraceParent;
use interlock_model::{IdempotencyKey, RunId, WorkflowId};
use serde_json::{Map, Value};

use super::{Caller, Named, Permission, Refusal, Settings, admission, endpoints, run_waits};
use crate::metrics::{AdmissionEndpoint, AdmissionOutcome};
use crate::{body, idempotency, start_headers};

endpoints!("runs": start, rerun);

/// Starts a run of the workflow. The body is the run's input.
#[utoipa::path(post, path = "/api/v1/workflows/{id}/runs", params(
    ("id" = WorkflowId, Path, description = "The workflow"),
    ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "1 to 255 visible ASCII characters, quoted or bare; \
        also as X-Idempotency-Key. The same key with the same input gives the same run"),
    ("X-Interlock-Priority" = Option<u8>, Header, description = "How soon the run starts if it has to wait in a queue by \
        priority: 9 first; 4 if absent", minimum = 0, maximum = 9),
    ("X-Interlock-Label" = Option<String>, Header, description = "A label of the run, `name=value`. May be sent 16 times. \
        Names are like ids, values have at most 256 bytes", pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}=[!-~]{0,256}$"),
    ("Prefer" = Option<String>, Header, description = "`wait=N` (RFC 7240): the answer waits up to N seconds, at most 60, \
        for the end of the run: 200 with the `run`, else 202"),
), request_body(content = Option<Object>, description = "The run's input; an empty body is an empty input"), responses(
    (status = 200, body = StartedRun, description = "Started, or started before under the same key, or joined to a run",
        headers(("Idempotent-Replayed" = String), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 202, body = StartedRun, description = "A limit lets the run wait, and it has no slot yet; or, with \
        `Prefer: wait`, the run has not ended yet", headers(("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 422, body = Problem, content_type = "application/problem+json",
        description = "The key was used with another input"),
    (status = 429, body = Problem, content_type = "application/problem+json",
        description = "A limit is reached, or its queue is full",
        headers(("Retry-After" = u64), ("RateLimit-Policy" = String), ("RateLimit" = String))),
))]
async fn start(caller: Caller, workflow: Result<Named<WorkflowId>, Refusal>, request: Request) -> Response {
    let context = RunRequestContext::now(AdmissionEndpoint::Start, &request);
    let decided = decide_start(&caller, workflow, context.parent_span, request).await;
    answer(&caller, &context, decided).await
}

/// What became of a start, and how long its answer waits for the end of the run.
type Decided = Result<(StartOutcome, Option<Duration>), Refusal>;

async fn decide_start(
    caller: &Caller,
    workflow: Result<Named<WorkflowId>, Refusal>,
    parent_span: Option<TraceParent>,
    request: Request,
) -> Decided {
    let Named(workflow) = workflow?;
    caller.may_for(Permission::Start, &workflow)?;
    let key = idempotency::key(request.headers())?;
    let priority = start_headers::priority(request.headers())?;
    let labels = start_headers::labels(request.headers())?;
    let wait = start_headers::wait(request.headers())?;
    let settings = &caller.app.settings;
    let input = input(body::read(request, &caller.app).await?, settings).await?;
    let has_key = key.is_some();
    let tenant = caller.tenant.clone();
    let request = StartRequest { tenant, workflow, input, key, labels, priority, parent_span };
    let decided = caller.app.stages.admission.start(request).await;
    decided.map(|started| (started, wait)).map_err(|error| refusal(caller, error, has_key))
}

async fn input(body: Bytes, settings: &Settings) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let input: Value = body::parse(body, settings).await?;
    // Checked after parsing: the deserializer treats some keys specially, and makes a number of such an object.
    if input.is_object() {
        Ok(input)
    } else {
        Err(Refusal::invalid("the body is the run's input and must be a JSON object"))
    }
}

/// Starts the run's workflow again with the same input.
#[utoipa::path(post, path = "/api/v1/workflow-runs/{id}/rerun", params(
    ("id" = RunId, Path, description = "The run to repeat; it must have ended"),
    ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "As for a start"),
    ("Prefer" = Option<String>, Header, description = "As for a start"),
), request_body(content = Option<runs::RerunRequest>), responses(
    (status = 200, body = StartedRun, description = "Started, or started before under the same key",
        headers(("Idempotent-Replayed" = String), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 202, body = StartedRun, description = "A limit lets the run wait, and it has no slot yet; or, with \
        `Prefer: wait`, the run has not ended yet", headers(("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 422, body = Problem, content_type = "application/problem+json",
        description = "The key was used for something else"),
    (status = 429, body = Problem, content_type = "application/problem+json",
        description = "A limit is reached, or its queue is full",
        headers(("Retry-After" = u64), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 409, description = "The run has not ended (`conflict`)")))]
async fn rerun(caller: Caller, run: Result<Named<RunId>, Refusal>, request: Request) -> Response {
    let context = RunRequestContext::now(AdmissionEndpoint::Rerun, &request);
    let decided = decide_rerun(&caller, run, context.parent_span, request).await;
    answer(&caller, &context, decided).await
}

async fn decide_rerun(
    caller: &Caller,
    run: Result<Named<RunId>, Refusal>,
    parent_span: Option<TraceParent>,
    request: Request,
) -> Decided {
    let Named(run) = run?;
    caller.may_for_run(Permission::Start, run).await?;
    let key = idempotency::key(request.headers())?;
    let wait = start_headers::wait(request.headers())?;
    let settings = &caller.app.settings;
    let body = body::read(request, &caller.app).await?;
    let runs::RerunRequest { from_step } = body::parse_optional(body, settings).await?;
    let has_key = key.is_some();
    let request = RerunRequest { tenant: caller.tenant.clone(), run, from_step, key, parent_span };
    let decided = caller.app.stages.admission.rerun(request).await;
    decided.map(|started| (started, wait)).map_err(|error| refusal(caller, error, has_key))
}

/// A request for a run, and when it arrived.
struct RunRequestContext {
    endpoint: AdmissionEndpoint,
    at: Instant,
    /// The client's span, if it sent one.
    parent_span: Option<TraceParent>,
}

impl RunRequestContext {
    fn now(endpoint: AdmissionEndpoint, request: &Request) -> Self {
        Self { endpoint, at: Instant::now(), parent_span: traceparent(request.headers()) }
    }
}

/// The standard says to ignore an invalid one.
fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

fn refusal(caller: &Caller, error: StartError, has_key: bool) -> Refusal {
    Refusal::of_start(error, has_key, || caller.app.stages.admission.retry_after(None))
}

/// Every answer has the tenant's cap and its free slots.
async fn answer(caller: &Caller, context: &RunRequestContext, decided: Decided) -> Response {
    let outcome = match &decided {
        Ok((started, _)) => admission::outcome(started),
        Err(refusal) => outcome_of(refusal),
    };
    let Caller { app, tenant, .. } = caller;
    app.metrics.tenant(tenant).decided(context.endpoint, outcome, context.at.elapsed());
    if let Ok((StartOutcome::Admitted { run, .. } | StartOutcome::Queued { run, .. }, _)) = &decided {
        let traces = app.stages.process.traces();
        traces.request_answered(tenant, *run, context.parent_span, context.at.elapsed());
    }
    match decided {
        Ok((started, wait)) => {
            let answering = admission::Answering { admission: &app.stages.admission, now: app.clock.now() };
            let plain = admission::answer(&started, &answering);
            match wait {
                None => plain,
                Some(wait) => run_waits::after_start(caller, &started, wait, plain).await,
            }
        }
        Err(mut refusal) => {
            // If the store does not answer, the refusal goes without them.
            if let Ok(usage) = app.store.call(ReadUsage { tenant: tenant.clone() }).await {
                admission::add_usage(refusal.headers_mut(), usage);
            }
            refusal.into_response()
        }
    }
}

fn outcome_of(refusal: &Refusal) -> AdmissionOutcome {
    if matches!(refusal.code(), Code::GateUnavailable | Code::StorageFull) {
        AdmissionOutcome::Unavailable
    } else if refusal.code() == Code::OutcomeUnknown {
        AdmissionOutcome::Unknown
    } else {
        AdmissionOutcome::Refused
    }
}
