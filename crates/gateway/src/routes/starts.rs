//! Starting runs, and starting them again. The hot path.

use interlock_backend::verbs::ReadUsage;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use interlock_api::runs::{self, StartedRun};
use interlock_api::{Code, Problem};
use interlock_control::admission::{RerunRequest, StartError, StartRequest};
use interlock_model::admission::StartOutcome;
use interlock_model::trace::TraceParent;
use interlock_model::{RunId, WorkflowId};
use serde_json::{Map, Value};

use crate::auth::{Caller, Permission};
use crate::body;
use crate::convert::admission;
use crate::error::Refusal;
use crate::idempotency;
use crate::metrics::{AdmissionOutcome, Endpoint};
use crate::openapi::Refusals;
use crate::path::Named;
use crate::router::Routes;
use crate::settings::Settings;
use crate::state::{App, Shared};

pub(crate) fn register(routes: Routes) -> Routes {
    routes.post("/api/v1/workflows/{id}/runs", start).post("/api/v1/workflow-runs/{id}/rerun", rerun)
}

/// Starts a run of the workflow. The body is the run's input.
#[utoipa::path(post, path = "/api/v1/workflows/{id}/runs", tag = "runs", params(
    ("id" = String, Path, description = "The workflow"),
    ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters, quoted or bare; \
        also as X-Idempotency-Key. The same key with the same input gives the same run"),
), request_body(content = Option<Object>, description = "The run's input; an empty body is an empty input"), responses(
    (status = 200, body = StartedRun, description = "Started, or started before under the same key",
        headers(("Idempotent-Replayed" = String), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 422, body = Problem, content_type = "application/problem+json",
        description = "The key was used with another input"),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "The cap is reached",
        headers(("Retry-After" = u64), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    Refusals,
))]
pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    workflow: Result<Named<WorkflowId>, Refusal>,
    request: Request,
) -> Response {
    let context = RunRequestContext::now(Endpoint::Start, &request);
    let decided = decide_start(&app, &caller, workflow, context.parent_span, request).await;
    answer(&app, &caller, &context, decided).await
}

async fn decide_start(
    app: &Shared,
    caller: &Caller,
    workflow: Result<Named<WorkflowId>, Refusal>,
    parent_span: Option<TraceParent>,
    request: Request,
) -> Result<StartOutcome, Refusal> {
    caller.may(Permission::Start)?;
    let Named(workflow) = workflow?;
    let key = idempotency::key(request.headers())?;
    let body = body::read(request, &app.settings).await?;
    let input = input(&body, &app.settings)?;
    let has_key = key.is_some();
    let request = StartRequest { tenant: caller.tenant.clone(), workflow, input, key, parent_span };
    let decided = app.admission.start(request).await;
    decided.map_err(|error| refusal(app, error, has_key))
}

fn input(body: &[u8], settings: &Settings) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let input: Value = body::parse(body, settings)?;
    // Of members with names of its own, the reader may make something else of an object.
    if input.is_object() {
        Ok(input)
    } else {
        Err(Refusal::invalid("the body is the run's input and must be a JSON object"))
    }
}

/// Starts the run's workflow again with the same input.
#[utoipa::path(post, path = "/api/v1/workflow-runs/{id}/rerun", tag = "runs", params(
    ("id" = String, Path, description = "The run to repeat; it must have ended"),
    ("Idempotency-Key" = Option<String>, Header, description = "As for a start"),
), request_body(content = Option<runs::RerunRequest>), responses(
    (status = 200, body = StartedRun, description = "Started, or started before under the same key",
        headers(("Idempotent-Replayed" = String), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    (status = 422, body = Problem, content_type = "application/problem+json",
        description = "The key was used for something else"),
    (status = 429, body = Problem, content_type = "application/problem+json", description = "The cap is reached",
        headers(("Retry-After" = u64), ("RateLimit-Policy" = String), ("RateLimit" = String))),
    Refusals,
))]
pub(crate) async fn rerun(
    State(app): State<App>,
    caller: Caller,
    run: Result<Named<RunId>, Refusal>,
    request: Request,
) -> Response {
    let context = RunRequestContext::now(Endpoint::Rerun, &request);
    let decided = decide_rerun(&app, &caller, run, context.parent_span, request).await;
    answer(&app, &caller, &context, decided).await
}

async fn decide_rerun(
    app: &Shared,
    caller: &Caller,
    run: Result<Named<RunId>, Refusal>,
    parent_span: Option<TraceParent>,
    request: Request,
) -> Result<StartOutcome, Refusal> {
    caller.may(Permission::Start)?;
    let Named(run) = run?;
    let key = idempotency::key(request.headers())?;
    let body = body::read(request, &app.settings).await?;
    let asked: runs::RerunRequest =
        if body.is_empty() { runs::RerunRequest::default() } else { body::parse(&body, &app.settings)? };
    let has_key = key.is_some();
    let request =
        RerunRequest { tenant: caller.tenant.clone(), run, from_step: asked.from_step, key, parent_span };
    let decided = app.admission.rerun(request).await;
    decided.map_err(|error| refusal(app, error, has_key))
}

/// A request that wants a run, and when it came.
struct RunRequestContext {
    endpoint: Endpoint,
    at: Instant,
    /// The client's span, if it sent one.
    parent_span: Option<TraceParent>,
}

impl RunRequestContext {
    fn now(endpoint: Endpoint, request: &Request) -> Self {
        Self { endpoint, at: Instant::now(), parent_span: traceparent(request.headers()) }
    }
}

/// What cannot be parsed is ignored, as the standard says.
fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

fn refusal(app: &Shared, error: StartError, has_key: bool) -> Refusal {
    Refusal::of_start(error, has_key, || app.admission.retry_after(None))
}

/// Every answer says what the tenant may use and what is left.
async fn answer(
    app: &Shared,
    caller: &Caller,
    context: &RunRequestContext,
    decided: Result<StartOutcome, Refusal>,
) -> Response {
    let outcome = match &decided {
        Ok(started) => admission::outcome(started),
        Err(refusal) => outcome_of(refusal),
    };
    app.metrics.tenant(&caller.tenant).decided(context.endpoint, outcome, context.at.elapsed());
    if let Ok(StartOutcome::Admitted { run, .. }) = &decided {
        app.process.traces().request_answered(
            &caller.tenant,
            *run,
            context.parent_span,
            context.at.elapsed(),
        );
    }
    match decided {
        Ok(started) => admission::answer(&started, |slot_flow| app.admission.retry_after(Some(slot_flow))),
        Err(mut refusal) => {
            // A store that does not answer cannot tell either; the refusal itself counts.
            if let Ok(usage) = app.store.call(ReadUsage { tenant: caller.tenant.clone() }).await {
                admission::add_usage(refusal.headers_mut(), usage);
            }
            refusal.into_response()
        }
    }
}

fn outcome_of(refusal: &Refusal) -> AdmissionOutcome {
    if refusal.code() == Code::GateUnavailable {
        AdmissionOutcome::Unavailable
    } else if refusal.code() == Code::OutcomeUnknown {
        AdmissionOutcome::Unknown
    } else {
        AdmissionOutcome::Refused
    }
}
