//! Refusals: the body of every answer that is not a success (RFC 9457), and the codes that programs may rely on.

use interlock_model::RunId;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was refused, for programs. A code never changes its meaning or its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Bad JSON, an unknown field, a violated schema, a bad parameter or header.
    InvalidRequest,
    /// No key, or a wrong one.
    Unauthorized,
    /// Another tenant, or too low a role.
    Forbidden,
    /// Not there, or another tenant's.
    NotFound,
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The thing is not in a state in which this can be done.
    Conflict,
    LockHeld,
    /// The other verdict was given before, or the question was withdrawn.
    ApprovalAlreadyResolved,
    /// The fence or token is older than the store's, or the job was dispatched anew.
    StaleFence,
    PayloadTooLarge,
    UnsupportedMediaType,
    /// The idempotency key started a run with another payload.
    IdempotencyKeyReused,
    /// The cap is reached.
    MaxConcurrentRuns,
    /// The tenant holds as many locks, or stands in as many lines, as it may.
    LockQuota,
    /// A bug of ours.
    InternalError,
    /// Not answering in time; known not to be done.
    GateUnavailable,
    /// The store's answer was lost; it may be done.
    OutcomeUnknown,
    /// A code of a newer server. Never sent by this one.
    #[serde(other)]
    Unrecognized,
}

impl Code {
    /// Every code that this server sends.
    pub const ALL: [Self; 18] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::Conflict,
        Self::LockHeld,
        Self::ApprovalAlreadyResolved,
        Self::StaleFence,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::IdempotencyKeyReused,
        Self::MaxConcurrentRuns,
        Self::LockQuota,
        Self::InternalError,
        Self::GateUnavailable,
        Self::OutcomeUnknown,
    ];

    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::Conflict | Self::LockHeld | Self::ApprovalAlreadyResolved | Self::StaleFence => 409,
            Self::PayloadTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::IdempotencyKeyReused => 422,
            Self::MaxConcurrentRuns | Self::LockQuota => 429,
            Self::InternalError | Self::Unrecognized => 500,
            Self::GateUnavailable | Self::OutcomeUnknown => 503,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::LockHeld => "lock_held",
            Self::ApprovalAlreadyResolved => "approval_already_resolved",
            Self::StaleFence => "stale_fence",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::MaxConcurrentRuns => "max_concurrent_runs",
            Self::LockQuota => "lock_quota",
            Self::InternalError => "internal_error",
            Self::GateUnavailable => "gate_unavailable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Unrecognized => "unrecognized",
        }
    }

    /// The same for every problem of this code.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::InvalidRequest => "The request is not valid",
            Self::Unauthorized => "An API key is needed",
            Self::Forbidden => "This key may not do that",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "This path does not take this method",
            Self::RequestTimeout => "The request did not arrive in time",
            Self::Conflict => "The state does not allow it",
            Self::LockHeld => "The lock is held",
            Self::ApprovalAlreadyResolved => "The approval was decided before",
            Self::StaleFence => "The fence is stale",
            Self::PayloadTooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The body must be JSON",
            Self::IdempotencyKeyReused => "The idempotency key was used for another payload",
            Self::MaxConcurrentRuns => "The tenant's cap on runs is reached",
            Self::LockQuota => "The tenant has as much of locks as it may",
            Self::InternalError => "Something went wrong inside",
            Self::GateUnavailable => "Not answering in time; nothing was done",
            Self::OutcomeUnknown => "The outcome is unknown",
            Self::Unrecognized => "A problem of a newer server",
        }
    }
}

/// The body of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    pub r#type: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    pub code: Code,
    /// One sentence for people.
    pub error: String,
    /// `max_concurrent_runs`, `lock_quota`: the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// `max_concurrent_runs`: the live runs. `lock_quota`: the locks, or places in line. `stale_fence`: the store's
    /// fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// `stale_fence`: the fence that was presented, or that the presented token had; 0 if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// `idempotency_key_reused`: the run that the key started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// 429, 503 and `lock_held`: when to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// `outcome_unknown`: whether a retry with the same key is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_with_same_key: Option<bool>,
    /// `lock_held`: who holds it (null: nobody of whom the store knows), since when, and the caller's place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    pub holder: Option<Holder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// Who holds a lock that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Holder {
    Owner(String),
    /// Written as null: it is free and somebody else's turn, or what stands in the store is not ours.
    Nobody,
}

/// A null is a word, too; only what is absent was not said.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Holder>, D::Error> {
    Holder::deserialize(deserializer).map(Some)
}

impl Problem {
    /// A problem without further members. `error` is one sentence for people.
    #[must_use]
    pub fn new(code: Code, error: impl Into<String>) -> Self {
        let error = error.into();
        Self {
            r#type: format!("urn:interlock:error:{}", code.name()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: error.clone(),
            code,
            error,
            limit: None,
            current: None,
            held: None,
            run_id: None,
            retry_after_ms: None,
            retry_with_same_key: None,
            holder: None,
            held_ms: None,
            position: None,
        }
    }

    /// The same problem, in another sentence.
    pub fn say(&mut self, error: impl Into<String>) {
        self.error = error.into();
        self.detail.clone_from(&self.error);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_code_is_written_as_its_name() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.name()));
            assert_eq!(serde_json::from_value::<Code>(json!(code.name())).unwrap(), code);
        }
    }

    #[test]
    fn a_problem_reads_back_as_it_was_written() {
        for code in Code::ALL {
            let mut problem = Problem::new(code, "no more");
            problem.limit = Some(2);
            problem.current = Some(9_007_199_254_740_991);
            problem.retry_after_ms = Some(1_250);
            problem.retry_with_same_key = Some(false);
            let text = serde_json::to_string(&problem).unwrap();
            assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        }
    }

    #[test]
    fn that_nobody_holds_a_lock_is_written_and_read() {
        let owner = Holder::Owner("ada".to_owned());
        for (holder, written) in [(owner, json!("ada")), (Holder::Nobody, json!(null))] {
            let mut problem = Problem::new(Code::LockHeld, "not now");
            problem.holder = Some(holder);
            let value = serde_json::to_value(&problem).unwrap();
            assert_eq!(value.get("holder"), Some(&written));
            assert_eq!(serde_json::from_value::<Problem>(value).unwrap(), problem);
        }
    }

    #[test]
    fn members_that_do_not_apply_are_left_out() {
        let written = serde_json::to_value(Problem::new(Code::NotFound, "there is no run x")).unwrap();
        let names: Vec<_> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        assert_eq!(written["status"], json!(404));
    }

    #[test]
    fn a_code_of_a_newer_server_does_not_make_the_problem_unreadable() {
        assert_eq!(serde_json::from_value::<Code>(json!("from_the_future")).unwrap(), Code::Unrecognized);
    }
}
