//! Answers to a start. They are written by hand, because a refusal must cost little more than an empty answer.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use interlock_api::problem::MEDIA_TYPE;
use interlock_api::{Code, Problem};
use interlock_control::admission::Admission;
use interlock_model::admission::{StartOutcome, Usage};
use interlock_model::limit::place::Blocked;
use interlock_model::run::RunStatus;
use interlock_model::tenant::SlotFlow;
use interlock_model::time::millis;
use interlock_model::why::{LimitWait, WaitOutcome};
use interlock_model::{RunId, Timestamp, why};

use super::limit_views;
use crate::error::{Refusal, retry_after_seconds};
use crate::metrics::AdmissionOutcome;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What answers need that is not in the outcome.
pub(super) struct Answering<'a> {
    pub admission: &'a Admission,
    pub now: Timestamp,
}

pub(super) fn outcome(started: &StartOutcome) -> AdmissionOutcome {
    match started {
        StartOutcome::Admitted { .. } => AdmissionOutcome::Admitted,
        StartOutcome::Replayed { .. } => AdmissionOutcome::Replayed,
        StartOutcome::KeyReused { .. } => AdmissionOutcome::KeyReused,
        StartOutcome::Queued { .. } => AdmissionOutcome::Queued,
        StartOutcome::Joined { .. } => AdmissionOutcome::Joined,
        StartOutcome::AtCapacity { .. } => AdmissionOutcome::AtCapacity,
        StartOutcome::LimitReached { .. } => AdmissionOutcome::LimitReached,
        StartOutcome::QueueFull { .. } => AdmissionOutcome::QueueFull,
        StartOutcome::DefinitionChanged { .. } | StartOutcome::LimitsChanged { .. } => {
            AdmissionOutcome::Unavailable
        }
    }
}

pub(super) fn answer(started: &StartOutcome, answering: &Answering<'_>) -> Response {
    let Answering { admission, now } = *answering;
    let (mut response, usage) = match started {
        StartOutcome::Admitted { run, status, usage } => (run_answer(*run, status.name(), false), usage),
        StartOutcome::Replayed { run, status, usage } => {
            (run_answer(*run, status.map_or("deleted", RunStatus::name), true), usage)
        }
        StartOutcome::KeyReused { run, usage } => (key_reused(*run), usage),
        StartOutcome::Queued { run, position, blocked, usage } => {
            (queued(*run, *position, blocked, now), usage)
        }
        StartOutcome::Joined { run, status, usage, .. } => (joined(*run, *status), usage),
        StartOutcome::AtCapacity { usage, slot_flow } => {
            (at_capacity(*usage, *slot_flow, admission.retry_after(Some(*slot_flow)), now), usage)
        }
        StartOutcome::LimitReached { blocked, usage } => {
            (limit_reached(Code::LimitReached, blocked, admission.retry_after_limit(blocked), now), usage)
        }
        StartOutcome::QueueFull { blocked, usage } => {
            (limit_reached(Code::QueueFull, blocked, admission.retry_after_limit(blocked), now), usage)
        }
        StartOutcome::DefinitionChanged { usage, .. } => {
            let reason = "the workflow is changing too fast; nothing was started";
            (Refusal::unavailable(reason).into_response(), usage)
        }
        StartOutcome::LimitsChanged { usage } => {
            let reason = "the limits of the tenant are changing too fast; nothing was started";
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

fn joined(run: RunId, status: RunStatus) -> Response {
    let status = status.name();
    let body = format!("{{\"run_id\":\"{run}\",\"status\":\"{status}\",\"replayed\":false,\"joined\":true}}");
    response(StatusCode::OK, "application/json", body)
}

fn queued(run: RunId, position: Option<u64>, blocked: &Blocked, now: Timestamp) -> Response {
    let mut body = String::with_capacity(512);
    let place = position.map_or_else(|| "null".to_owned(), |position| position.to_string());
    // Writing into a string does not fail.
    let _ = write!(
        body,
        "{{\"run_id\":\"{run}\",\"status\":\"queued\",\"position\":{place},\"blocked_by\":{},\"detail\":{},\
         \"replayed\":false}}",
        limit_views::blocked_json(blocked),
        quoted(&sentence(blocked, WaitOutcome::Queued { position }, now)),
    );
    response(StatusCode::ACCEPTED, "application/json", body)
}

fn key_reused(run: RunId) -> Response {
    let sentence = format!("this idempotency key started run {run} with another payload");
    let problem = Problem { run_id: Some(run), ..Problem::new(Code::IdempotencyKeyReused, sentence) };
    let body = serde_json::to_string(&problem).unwrap_or_default();
    response(StatusCode::UNPROCESSABLE_ENTITY, MEDIA_TYPE, body)
}

fn at_capacity(usage: Usage, slot_flow: SlotFlow, retry_after: Duration, now: Timestamp) -> Response {
    let Usage { runs_active, runs_max } = usage;
    let detail = sentence(&why::of_tenant(usage, slot_flow), WaitOutcome::Rejected, now);
    let members = format!("\"limit\":{runs_max},\"current\":{runs_active}");
    too_many(Code::MaxConcurrentRuns, (&detail, &why::slots(usage)), &members, retry_after)
}

fn limit_reached(code: Code, blocked: &Blocked, retry_after: Duration, now: Timestamp) -> Response {
    let outcome = if code == Code::QueueFull { WaitOutcome::QueueFull } else { WaitOutcome::Rejected };
    let detail = sentence(blocked, outcome, now);
    let Blocked { limit, group, live, .. } = blocked;
    let group = match group.as_str() {
        "" => String::new(),
        group => format!("\"group\":{},", quoted(group)),
    };
    let blocked_by = limit_views::blocked_json(blocked);
    let members = format!("\"limit\":\"{limit}\",{group}\"blocked_by\":{blocked_by},\"current\":{live}");
    too_many(code, (&detail, &detail), &members, retry_after)
}

fn sentence(blocked: &Blocked, outcome: WaitOutcome, now: Timestamp) -> String {
    LimitWait { blocked, outcome, now, oldest: None, pause: None }.sentence()
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

fn too_many(code: Code, (detail, error): (&str, &str), members: &str, retry_after: Duration) -> Response {
    let (name, title, wait) = (code.name(), code.title(), millis(retry_after));
    let mut body = String::with_capacity(768);
    // Writing into a string does not fail.
    let _ = write!(
        body,
        "{{\"type\":\"urn:interlock:error:{name}\",\"title\":\"{title}\",\"status\":429,\
         \"detail\":{},\"code\":\"{name}\",\"error\":{},{members},\"retry_after_ms\":{wait}}}",
        quoted(detail),
        quoted(error),
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
    use interlock_api::problem::ReachedLimit;
    use interlock_api::runs::StartedRun;
    use interlock_model::limit::group::Fullness;

    use super::*;

    const WAIT: Duration = Duration::from_millis(1_250);

    async fn body(response: Response) -> Vec<u8> {
        response.into_body().collect().await.unwrap().to_bytes().to_vec()
    }

    fn blocked() -> Blocked {
        Blocked {
            limit: "per-repo".parse().unwrap(),
            group: "a \"quoted\" name".parse().unwrap(),
            fullness: Fullness::Slots,
            live: 2,
            runs_max: Some(2),
            queued: 1,
            slot_flow: SlotFlow::default(),
        }
    }

    #[tokio::test]
    async fn a_refusal_written_by_hand_is_the_documented_problem() {
        let usage = Usage { runs_active: 2, runs_max: 2 };
        let mut answer = at_capacity(usage, SlotFlow::default(), WAIT, Timestamp::ZERO);
        add_usage(answer.headers_mut(), usage);
        assert_eq!(answer.headers()["retry-after"], "2");
        assert_eq!(answer.headers()["ratelimit"], "\"tenant-runs\";r=0");
        let policy = "\"tenant-runs\";q=2;qu=\"concurrent-requests\"";
        assert_eq!(answer.headers()["ratelimit-policy"], policy);
        let problem: Problem = serde_json::from_slice(&body(answer).await).unwrap();
        let expected = Problem {
            limit: Some(ReachedLimit::Cap(2)),
            current: Some(2),
            retry_after_ms: Some(1_250),
            detail: sentence(
                &why::of_tenant(usage, SlotFlow::default()),
                WaitOutcome::Rejected,
                Timestamp::ZERO,
            ),
            ..Problem::new(Code::MaxConcurrentRuns, "max concurrent runs reached: 2 of 2 are active")
        };
        assert_eq!(problem, expected);
    }

    #[tokio::test]
    async fn a_reached_limit_written_by_hand_is_the_documented_problem() {
        for (code, outcome) in
            [(Code::LimitReached, WaitOutcome::Rejected), (Code::QueueFull, WaitOutcome::QueueFull)]
        {
            let blocked = blocked();
            let answer = limit_reached(code, &blocked, WAIT, Timestamp::ZERO);
            assert_eq!(answer.headers()["retry-after"], "2");
            let problem: Problem = serde_json::from_slice(&body(answer).await).unwrap();
            let expected = Problem {
                limit: Some(ReachedLimit::Name(blocked.limit.clone())),
                group: Some(blocked.group.to_string()),
                blocked_by: Some(limit_views::blocked_by(&blocked)),
                current: Some(2),
                retry_after_ms: Some(1_250),
                ..Problem::new(code, sentence(&blocked, outcome, Timestamp::ZERO))
            };
            assert_eq!(problem, expected);
        }
    }

    #[tokio::test]
    async fn a_queued_start_written_by_hand_is_the_documented_answer() {
        let (run, blocked) = ("01234567-89ab-7def-8123-456789abcdef".parse().unwrap(), blocked());
        for position in [None, Some(3)] {
            let answer = queued(run, position, &blocked, Timestamp::ZERO);
            assert_eq!(answer.status(), StatusCode::ACCEPTED);
            let started: StartedRun = serde_json::from_slice(&body(answer).await).unwrap();
            let expected = StartedRun {
                run_id: run,
                status: "queued".to_owned(),
                replayed: false,
                joined: false,
                position,
                blocked_by: Some(limit_views::blocked_by(&blocked)),
                detail: Some(sentence(&blocked, WaitOutcome::Queued { position }, Timestamp::ZERO)),
                run: None,
            };
            assert_eq!(started, expected);
        }
    }
}
