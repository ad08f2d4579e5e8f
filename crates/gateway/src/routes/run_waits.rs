//! Answers that wait for the end of a run.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use interlock_api::Code;
use interlock_api::runs::{RunView, StartedRun};
use interlock_control::run_ends::{EndedRun, RunEnd, RunWaitError};
use interlock_model::RunId;
use interlock_model::admission::StartOutcome;
use interlock_model::run::RunStatus;

use super::{Caller, runs};
use crate::error::{Refusal, spread};

const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// What a client waits for after its start.
struct StartedWait {
    run: RunId,
    replayed: bool,
    joined: bool,
}

impl StartedWait {
    /// None: there is no run to wait for.
    fn of(started: &StartOutcome) -> Option<Self> {
        let (run, replayed, joined) = match started {
            StartOutcome::Admitted { run, .. } | StartOutcome::Queued { run, .. } => (*run, false, false),
            StartOutcome::Replayed { run, status: Some(_), .. } => (*run, true, false),
            StartOutcome::Joined { run, .. } => (*run, false, true),
            StartOutcome::Replayed { status: None, .. }
            | StartOutcome::KeyReused { .. }
            | StartOutcome::AtCapacity { .. }
            | StartOutcome::LimitReached { .. }
            | StartOutcome::QueueFull { .. }
            | StartOutcome::DefinitionChanged { .. }
            | StartOutcome::LimitsChanged { .. } => return None,
        };
        Some(Self { run, replayed, joined })
    }

    fn answer(&self, status: &str) -> StartedRun {
        StartedRun {
            run_id: self.run,
            status: status.to_owned(),
            replayed: self.replayed,
            joined: self.joined,
            position: None,
            blocked_by: None,
            detail: None,
            run: None,
        }
    }
}

/// Waits for the end of the run that was started, whose plain answer is this.
pub(super) async fn after_start(
    caller: &Caller,
    started: &StartOutcome,
    wait: Duration,
    plain: Response,
) -> Response {
    let Some(waiting) = StartedWait::of(started) else { return plain };
    let app = &caller.app;
    let applied = HeaderValue::from_maybe_shared(bytes::Bytes::from(format!("wait={}", wait.as_secs())));
    let applied = applied.expect("a number makes a header");
    let (status, answer, is_applied) =
        match app.stages.run_ends.wait(&caller.tenant, waiting.run, wait, &app.closing).await {
            Ok(RunEnd::Ended(ended)) => {
                let view = view(&ended);
                let run = Some(Box::new(view));
                let status = ended.run.head.status.name();
                (StatusCode::OK, StartedRun { run, ..waiting.answer(status) }, true)
            }
            Ok(RunEnd::NotYet(status)) => match status {
                // Its place in the queue is part of the plain answer.
                None | Some(RunStatus::Queued) if plain.status() == StatusCode::ACCEPTED => {
                    return with_header(plain, applied);
                }
                status => {
                    let status = status.unwrap_or(RunStatus::Pending).name();
                    (StatusCode::ACCEPTED, waiting.answer(status), true)
                }
            },
            Ok(RunEnd::Gone) => (StatusCode::ACCEPTED, waiting.answer("deleted"), true),
            // It is started, and a refusal would say otherwise.
            Err(error) => {
                let status = RunStatus::Pending.name();
                let detail =
                    Some(format!("the run was started, and this answer did not wait for its end: {error}"));
                (StatusCode::ACCEPTED, StartedRun { detail, ..waiting.answer(status) }, false)
            }
        };
    let (mut head, _) = plain.into_parts();
    head.status = status;
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    let response = Response::from_parts(head, Body::from(body));
    if is_applied { with_header(response, applied) } else { response }
}

fn with_header(mut response: Response, applied: HeaderValue) -> Response {
    response.headers_mut().insert(APPLIED, applied);
    response
}

/// The ended run; none if it has not ended in this time.
pub(super) async fn ended(caller: &Caller, run: RunId, wait: Duration) -> Result<Option<RunView>, Refusal> {
    let app = &caller.app;
    match app.stages.run_ends.wait(&caller.tenant, run, wait, &app.closing).await {
        Ok(RunEnd::Ended(ended)) => Ok(Some(view(&ended))),
        Ok(RunEnd::NotYet(_)) => Ok(None),
        Ok(RunEnd::Gone) => Err(Refusal::not_found("run", &run.to_string())),
        Err(error @ RunWaitError::Full { .. }) => {
            let sentence = format!("{error}; read the run without wait_ms, or retry");
            Err(Refusal::new(Code::TooManyConnections, sentence).retry_after(spread()))
        }
        Err(RunWaitError::Store(error)) => Err(error.into()),
    }
}

fn view(ended: &EndedRun) -> RunView {
    runs::view(ended.run.clone(), ended.definition.as_ref())
}
