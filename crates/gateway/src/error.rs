//! From errors to problem documents. Every answer of 400 and above is made here.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use interlock_api::problem::{MEDIA_TYPE, ResetsAt};
use interlock_api::{Code, Problem};
use interlock_backend::{Effect, StoreError};
use interlock_control::admission::StartError;
use interlock_control::api_keys::KeyError;
use interlock_control::budgets::{BudgetError, Exhausted};
use interlock_control::limits::SaveLimitError;
use interlock_control::rollouts::TuningError;
use interlock_model::Resource;
use interlock_model::contention::BookError;
use interlock_model::limit::rule::NoGroup;
use interlock_model::time::millis;

/// The contract: every error about a store that does not answer begins with this.
const GATE: &str = "workflow concurrency gate unavailable";

/// An answer of 400 or above.
#[derive(Debug)]
pub(crate) struct Refusal {
    // Boxed: a problem is large, and every handler returns one of these.
    problem: Box<Problem>,
    headers: HeaderMap,
}

impl Refusal {
    pub(crate) fn new(code: Code, error: impl Into<String>) -> Self {
        Self { problem: Box::new(Problem::new(code, error)), headers: HeaderMap::new() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "map_err gives the error away")]
    pub(crate) fn invalid(error: impl ToString) -> Self {
        Self::new(Code::InvalidRequest, error.to_string())
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        // The name may be long; the error must not be.
        let name: String = name.chars().take(200).collect();
        Self::new(Code::NotFound, format!("there is no {what} {name}"))
    }

    pub(crate) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(Code::Forbidden, error)
    }

    /// Certainly not done; the client may retry.
    pub(crate) fn unavailable(reason: &str) -> Self {
        Self::new(Code::GateUnavailable, format!("{GATE}: {reason}")).retry_after(spread())
    }

    /// The request was not even read.
    pub(crate) fn too_many_connections() -> Self {
        let sentence = "too many connections or event streams are open, in all or from your address; close some, and retry";
        Self::new(Code::TooManyConnections, sentence).retry_after(spread())
    }

    /// Certainly not done, and not before there is room.
    pub(crate) fn storage_full(effect: &str) -> Self {
        Self::new(Code::StorageFull, format!("{GATE}: the storage is full; {effect}")).retry_after(spread())
    }

    pub(crate) fn bug() -> Self {
        Self::new(Code::InternalError, "internal error; see the server's log")
    }

    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        self.with(|problem| problem.retry_after_ms = Some(millis(wait)))
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Problem)) -> Self {
        change(&mut self.problem);
        self
    }

    pub(crate) fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    pub(crate) fn code(&self) -> Code {
        self.problem.code
    }

    /// The bytes of the answer, for a connection without a handler. It closes after them.
    pub(crate) fn to_http(&self) -> Vec<u8> {
        let Problem { status, retry_after_ms, .. } = &*self.problem;
        let body = serde_json::to_string(&self.problem).unwrap_or_default();
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let wait = retry_after_ms.map(|wait| format!("retry-after: {}\r\n", wait.div_ceil(1_000).max(1)));
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {MEDIA_TYPE}\r\n{}", wait.unwrap_or_default());
        let length = body.len();
        format!("{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}").into_bytes()
    }
}

/// When to ask again for an exhausted budget that does not reset.
const EXHAUSTED_WAIT: Duration = Duration::from_mins(1);

/// When to retry, where nothing better is known: in a second or two, with jitter.
pub(crate) fn spread() -> Duration {
    Duration::from_millis(rand::random_range(1_000..=2_000))
}

/// Whole seconds for the header: never zero, never less than in the body.
pub(crate) fn retry_after_seconds(wait: Duration) -> HeaderValue {
    HeaderValue::from(millis(wait).div_ceil(1_000).max(1))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { problem, mut headers } = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(wait) = problem.retry_after_ms {
            headers.insert(RETRY_AFTER, retry_after_seconds(Duration::from_millis(wait)));
        }
        if problem.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"interlock\""));
        }
        let body = serde_json::to_vec(&*problem).unwrap_or_default();
        (status, headers, body).into_response()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what, id } => Self::not_found(what, &id),
            StoreError::Fenced { held, current } => {
                let refusal = Self::new(Code::StaleFence, error.to_string());
                refusal.with(|problem| {
                    problem.held = Some(held.number());
                    problem.current = Some(current.number());
                })
            }
            StoreError::Conflict(sentence) => Self::new(Code::Conflict, sentence),
            StoreError::QuotaReached { .. } => Self::new(Code::QuotaReached, error.to_string()),
            StoreError::Unavailable { action, effect, reason } => {
                tracing::warn!(action, ?effect, reason, "the store did not answer");
                match effect {
                    Effect::NotDone => {
                        Self::unavailable(&format!("the store did not answer while trying to {action}"))
                    }
                    Effect::StorageFull => Self::storage_full(&format!("nothing was done to {action}")),
                    Effect::Unknown => unknown(&format!(
                        "the store's answer was lost while trying to {action}; it may or may not be done"
                    )),
                }
            }
            StoreError::Damaged { table, key, reason } => {
                tracing::error!(table, key, reason, "a row cannot be read");
                Self::bug()
            }
        }
    }
}

fn unknown(sentence: &str) -> Refusal {
    // Without an idempotency key a retry may do it twice.
    let refusal = Refusal::new(Code::OutcomeUnknown, sentence).retry_after(spread());
    refusal.with(|problem| problem.retry_with_same_key = Some(false))
}

impl Refusal {
    /// Why a start was not decided. Whether a retry is safe depends on its key.
    pub(crate) fn of_start(error: StartError, has_key: bool, retry_after: impl FnOnce() -> Duration) -> Self {
        match error {
            StartError::WorkflowNotFound(id) => Self::not_found("workflow", id.as_str()),
            StartError::RunNotFound(id) => Self::not_found("run", &id.to_string()),
            StartError::InvalidInput(_) | StartError::UnknownStep(_) => Self::invalid(error),
            StartError::NoGroup(no_group) => Self::no_group(&no_group),
            StartError::NotRerunnable(sentence) => Self::new(Code::Conflict, sentence),
            StartError::LockBusy { .. } | StartError::NotDone => {
                Self::unavailable(&error.to_string()).retry_after(retry_after())
            }
            StartError::StorageFull => Self::storage_full("nothing was started"),
            StartError::Unknown => unknown(&error.to_string())
                .retry_after(retry_after())
                .with(|problem| problem.retry_with_same_key = Some(has_key)),
            StartError::Store(error) => error.into(),
        }
    }
}

impl Refusal {
    /// A limit cannot tell in which of its groups a start counts.
    pub(crate) fn no_group(no_group: &NoGroup) -> Self {
        Self::invalid(format!("{no_group}; nothing was started"))
    }

    /// Why a lock was not changed. A repeatable call names its request or its token, so that a retry is safe.
    pub(crate) fn of_lock(error: StoreError, resource: &Resource, is_repeatable: bool) -> Self {
        match error {
            StoreError::Fenced { held, current } => {
                let sentence = if held == current {
                    format!("this token's lease on {resource} has ended; no lease was granted since")
                } else {
                    format!(
                        "this token does not hold {resource}: its fence was {held}, and the last grant's is {current}"
                    )
                };
                Self::from(error).with(|problem| problem.say(sentence))
            }
            StoreError::Unavailable { effect: Effect::Unknown, .. } => {
                let sentence = if is_repeatable {
                    "the store's answer was lost; repeat the call with the same request_id or token to learn the outcome"
                } else {
                    "the store's answer was lost; with a request_id you could repeat the call to learn the outcome"
                };
                Self::from(error).with(|problem| {
                    problem.say(sentence);
                    problem.retry_with_same_key = Some(is_repeatable);
                })
            }
            StoreError::Unavailable { effect: Effect::NotDone | Effect::StorageFull, .. }
            | StoreError::NotFound { .. }
            | StoreError::Conflict(_)
            | StoreError::QuotaReached { .. }
            | StoreError::Damaged { .. } => error.into(),
        }
    }
}

impl From<BudgetError> for Refusal {
    fn from(error: BudgetError) -> Self {
        match error {
            BudgetError::Invalid(problem) => Self::invalid(problem),
            BudgetError::TooMany(sentence) => Self::new(Code::QuotaReached, sentence),
            BudgetError::Store(error) => error.into(),
            BudgetError::Exhausted(exhausted) => {
                let Exhausted { sentence, remaining, resets_at, resets_in, may_be_released } = *exhausted;
                // Without a reset or a release only an operator helps, and to ask more often is in vain.
                let wait = if may_be_released { None } else { Some(resets_in.unwrap_or(EXHAUSTED_WAIT)) };
                let refusal = Self::new(Code::BudgetExhausted, sentence);
                refusal.retry_after(wait.unwrap_or_default().max(spread())).with(|problem| {
                    problem.remaining = Some(remaining.into());
                    problem.resets_at = Some(resets_at.map_or(ResetsAt::Never, |at| ResetsAt::At(at.into())));
                })
            }
        }
    }
}

impl Refusal {
    /// Why a permit was not granted or changed. Such a call names its request or its permit, so that a retry is safe.
    pub(crate) fn of_permit(error: impl Into<BudgetError>) -> Self {
        let error = error.into();
        let is_unknown =
            matches!(&error, BudgetError::Store(StoreError::Unavailable { effect: Effect::Unknown, .. }));
        let refusal = Self::from(error);
        if is_unknown {
            return refusal.with(|problem| problem.retry_with_same_key = Some(true));
        }
        refusal
    }
}

impl From<SaveLimitError> for Refusal {
    fn from(error: SaveLimitError) -> Self {
        match error {
            SaveLimitError::Invalid(problem) => Self::invalid(format!("{problem}; nothing was changed")),
            SaveLimitError::Changed { revision } => Self::limit_changed(revision),
            SaveLimitError::Store(error) => error.into(),
        }
    }
}

impl Refusal {
    /// Another change of the limit came first.
    pub(crate) fn limit_changed(revision: u64) -> Self {
        let now = if revision == 0 {
            "there is no such limit now".to_owned()
        } else {
            format!("its revision is {revision} now")
        };
        let sentence =
            format!("the limit has changed since it was read: {now}. Nothing was changed; read it again");
        Self::new(Code::Conflict, sentence)
    }
}

impl From<TuningError> for Refusal {
    fn from(error: TuningError) -> Self {
        match error {
            TuningError::Book(BookError::Conflict(sentence)) => Self::new(Code::Conflict, sentence),
            TuningError::Book(BookError::UnknownRollout(id)) => Self::not_found("rollout", id.as_str()),
            TuningError::Book(BookError::Invalid(problem)) => Self::invalid(problem),
            TuningError::Store(error) => error.into(),
        }
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::FirstMustBeAdmin
            | KeyError::OutlivesCreator
            | KeyError::Expired
            | KeyError::LastAdmin
            | KeyError::Lost => Self::new(Code::Conflict, error.to_string()),
            KeyError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use interlock_backend::Quota;
    use interlock_model::Fence;

    use super::*;

    fn unavailable(effect: Effect) -> StoreError {
        StoreError::Unavailable { action: "admit a run", effect, reason: "timed out".to_owned() }
    }

    #[test]
    fn every_failure_of_the_store_has_its_code() {
        let (held, current) = (Fence::new(1), Fence::new(2));
        let damaged =
            StoreError::Damaged { table: "runs", key: "k".to_owned(), reason: "cut off".to_owned() };
        let table = [
            (StoreError::not_found("run", "x"), Code::NotFound),
            (StoreError::Fenced { held, current }, Code::StaleFence),
            (StoreError::Conflict("not now".to_owned()), Code::Conflict),
            (StoreError::QuotaReached { quota: Quota::Workers, most: 1 }, Code::QuotaReached),
            (unavailable(Effect::NotDone), Code::GateUnavailable),
            (unavailable(Effect::StorageFull), Code::StorageFull),
            (unavailable(Effect::Unknown), Code::OutcomeUnknown),
            (damaged, Code::InternalError),
        ];
        for (error, code) in table {
            assert_eq!(Refusal::from(error).code(), code);
        }
    }

    #[test]
    fn an_unavailable_store_is_answered_with_when_to_retry() {
        for effect in [Effect::NotDone, Effect::Unknown] {
            let refusal = Refusal::from(unavailable(effect));
            let wait = refusal.problem.retry_after_ms.unwrap();
            let response = refusal.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[RETRY_AFTER], wait.div_ceil(1_000).to_string());
        }
        let refusal = Refusal::from(unavailable(Effect::NotDone));
        assert!(refusal.problem.error.starts_with("workflow concurrency gate unavailable"));
    }

    #[test]
    fn an_unknown_outcome_may_be_retried_only_with_a_key() {
        for has_key in [true, false] {
            let refusal = Refusal::of_start(StartError::Unknown, has_key, || Duration::from_millis(1));
            assert_eq!(refusal.problem.retry_with_same_key, Some(has_key));
            assert_eq!(refusal.into_response().headers()[RETRY_AFTER], "1");
        }
    }

    #[test]
    fn a_damaged_row_is_logged_and_not_shown_to_the_client() {
        let damaged = StoreError::Damaged { table: "runs", key: "secret".to_owned(), reason: "x".to_owned() };
        assert!(!format!("{:?}", Refusal::from(damaged).problem).contains("secret"));
    }
}
