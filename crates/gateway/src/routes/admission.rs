//! Answers to a start. They are written by hand, because a refusal must cost little more than an empty answer.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use interlock_api::problem::MEDIA_TYPE;
use interlock_api::{Code, Problem};
use interlock_model::admission::{StartOutcome, Usage};
use interlock_model::run::RunStatus;
use interlock_model::tenant::SlotFlow;
use interlock_model::time::millis;
use interlock_model::{RunId, why};

use crate::error::{Refusal, retry_after_seconds};
use crate::metrics::AdmissionOutcome;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

pub(super) fn outcome(started: &StartOutcome) -> AdmissionOutcome {
    match started {
        StartOutcome::Admitted { .. } => AdmissionOutcome::Admitted,
        StartOutcome::Replayed { .. } => AdmissionOutcome::Replayed,
        StartOutcome::KeyReused { .. } => AdmissionOutcome::KeyReused,
        StartOutcome::AtCapacity { .. } => AdmissionOutcome::AtCapacity,
        StartOutcome::DefinitionChanged { .. } => AdmissionOutcome::Unavailable,
    }
}

pub(super) fn answer(started: &StartOutcome, retry_after: impl FnOnce(SlotFlow) -> Duration) -> Response {
    let (mut response, usage) = match started {
        StartOutcome::Admitted { run, status, usage } => (run_answer(*run, status.name(), false), usage),
        StartOutcome::Replayed { run, status, usage } => {
            (run_answer(*run, status.map_or("deleted", RunStatus::name), true), usage)
        }
        StartOutcome::KeyReused { run, usage } => (key_reused(*run), usage),
        StartOutcome::AtCapacity { usage, slot_flow } => {
            (at_capacity(*usage, retry_after(*slot_flow)), usage)
        }
        StartOutcome::DefinitionChanged { usage, .. } => {
            let reason = "the workflow is changing too fast; nothing was started";
            (Refusal::unavailable(reason).into_response(), usage)
        }
    };
    add_usage(response.headers_mut(), *usage);
    response
}

/// The cap of the tenant and its free slots: every answer to a start has them.
pub(super) fn add_usage(headers: &mut HeaderMap, usage: Usage) {
    let policy = format!("\"tenant-runs\";q={};qu=\"concurrent-requests\"", usage.runs_max);
    let left = format!("\"tenant-runs\";r={}", usage.free());
    for (name, text) in [(POLICY, policy), (LIMIT, left)] {
        let value = HeaderValue::from_maybe_shared(bytes::Bytes::from(text));
        headers.insert(name, value.expect("numbers and quotes make a header"));
    }
}

fn run_answer(run: RunId, status: &str, replayed: bool) -> Response {
    let body = format!("{{\"run_id\":\"{run}\",\"status\":\"{status}\",\"replayed\":{replayed}}}");
    let mut response = response(StatusCode::OK, "application/json", body);
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn key_reused(run: RunId) -> Response {
    let sentence = format!("this idempotency key started run {run} with another payload");
    let problem = Problem { run_id: Some(run), ..Problem::new(Code::IdempotencyKeyReused, sentence) };
    let body = serde_json::to_string(&problem).unwrap_or_default();
    response(StatusCode::UNPROCESSABLE_ENTITY, MEDIA_TYPE, body)
}

fn at_capacity(usage: Usage, retry_after: Duration) -> Response {
    let Usage { runs_active, runs_max } = usage;
    let sentence = why::slots(usage);
    let (code, title) = (Code::MaxConcurrentRuns.name(), Code::MaxConcurrentRuns.title());
    let wait = millis(retry_after);
    let mut body = String::with_capacity(512);
    // Writing into a string does not fail.
    let _ = write!(
        body,
        "{{\"type\":\"urn:interlock:error:{code}\",\"title\":\"{title}\",\"status\":429,\
         \"detail\":\"{sentence}\",\"code\":\"{code}\",\"error\":\"{sentence}\",\
         \"limit\":{runs_max},\"current\":{runs_active},\"retry_after_ms\":{wait}}}"
    );
    let mut response = response(StatusCode::TOO_MANY_REQUESTS, MEDIA_TYPE, body);
    response.headers_mut().insert(RETRY_AFTER, retry_after_seconds(retry_after));
    response
}

fn response(status: StatusCode, media_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_refusal_written_by_hand_is_the_documented_problem() {
        let usage = Usage { runs_active: 2, runs_max: 2 };
        let started = StartOutcome::AtCapacity { usage, slot_flow: SlotFlow::default() };
        let answer = answer(&started, |_| Duration::from_millis(1_250));
        assert_eq!(answer.headers()["retry-after"], "2");
        assert_eq!(answer.headers()["ratelimit"], "\"tenant-runs\";r=0");
        let policy = "\"tenant-runs\";q=2;qu=\"concurrent-requests\"";
        assert_eq!(answer.headers()["ratelimit-policy"], policy);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let expected = Problem {
            limit: Some(2),
            current: Some(2),
            retry_after_ms: Some(1_250),
            ..Problem::new(Code::MaxConcurrentRuns, "max concurrent runs reached: 2 of 2 are active")
        };
        assert_eq!(serde_json::from_slice::<Problem>(&body).unwrap(), expected);
    }
}
