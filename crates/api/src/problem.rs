//! Problems: the body of every answer that is not a success (RFC 9457), and the codes that programs may rely on.

use interlock_model::{LimitName, RunId};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::budgets::Decimal;
use crate::named_limits::BlockedBy;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Declares the codes: each with its name, its status and the title of its problems.
macro_rules! codes {
    ($($(#[doc = $doc:literal])* $code:ident = $name:literal, $status:literal, $title:literal;)*) => {
        /// Why a request was refused, for programs. A code never changes its meaning or its status.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($(#[doc = $doc])* $code,)*
            /// A code of a newer server. This one never sends it.
            #[serde(other)]
            #[default]
            Unrecognized,
        }

        impl Code {
            /// Every code that this server sends.
            pub const ALL: [Self; [$($status),*].len()] = [$(Self::$code),*];

            pub fn status(self) -> u16 {
                self.row().1
            }

            pub fn name(self) -> &'static str {
                self.row().0
            }

            /// The same for every problem of this code.
            pub fn title(self) -> &'static str {
                self.row().2
            }

            fn row(self) -> (&'static str, u16, &'static str) {
                match self {
                    $(Self::$code => ($name, $status, $title),)*
                    Self::Unrecognized => ("unrecognized", 500, "A problem of a newer server"),
                }
            }
        }
    };
}

codes! {
    /// Bad JSON, an unknown field, a violated schema, a bad parameter or header.
    InvalidRequest = "invalid_request", 400, "The request is not valid";
    /// No key, or a wrong one.
    Unauthorized = "unauthorized", 401, "An API key is needed";
    /// Another tenant, too low a role, or without keys a request that a web page of another site may have sent.
    Forbidden = "forbidden", 403, "This is not allowed";
    /// It does not exist, or belongs to another tenant.
    NotFound = "not_found", 404, "Not found";
    MethodNotAllowed = "method_not_allowed", 405, "This path does not allow this method";
    /// The body did not arrive in time.
    RequestTimeout = "request_timeout", 408, "The request did not arrive in time";
    /// The state does not allow the request.
    Conflict = "conflict", 409, "The state does not allow it";
    /// There are as many of these as there may be.
    QuotaReached = "quota_reached", 409, "There are as many as there may be";
    LockHeld = "lock_held", 409, "The lock is held";
    /// The opposite verdict was given before, or the approval was withdrawn.
    ApprovalAlreadyResolved = "approval_already_resolved", 409, "The approval is already resolved";
    /// The fence or token is older than the store's, or the job was dispatched again.
    StaleFence = "stale_fence", 409, "The fence is stale";
    PayloadTooLarge = "payload_too_large", 413, "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", 415, "The body must be JSON";
    /// The idempotency key started a run with another payload.
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The idempotency key was used for another payload";
    /// The tenant's cap is reached.
    MaxConcurrentRuns = "max_concurrent_runs", 429, "The tenant's cap on concurrent runs is reached";
    /// A named limit is full, or paused.
    LimitReached = "limit_reached", 429, "A limit is reached";
    /// A limit is full, and as many runs wait for it as may.
    QueueFull = "queue_full", 429, "The queue of a limit is full";
    /// Less of a budget is left than was to be reserved.
    BudgetExhausted = "budget_exhausted", 429, "The budget has too little left";
    /// The tenant holds as many locks, or waits for as many, as it may.
    LockQuota = "lock_quota", 429, "The tenant's quota of locks is reached";
    /// A bug of the server.
    InternalError = "internal_error", 500, "Internal error";
    /// As many connections are open as may be, in all or of this client.
    TooManyConnections = "too_many_connections", 503, "Too many connections are open";
    /// The store did not answer in time; the request is known not to be done.
    GateUnavailable = "gate_unavailable", 503, "No answer in time; nothing was done";
    /// The disk, or the memory of Redis, is full; the request is known not to be done.
    StorageFull = "storage_full", 503, "The storage is full; nothing was done";
    /// The store's answer was lost; the request may be done.
    OutcomeUnknown = "outcome_unknown", 503, "The outcome is unknown";
}

/// The body of a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    pub r#type: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    pub code: Code,
    /// One sentence for people.
    pub error: String,
    /// `max_concurrent_runs`, `lock_quota`: the cap. `limit_reached`, `queue_full`: the name of the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ReachedLimit>,
    /// `limit_reached`, `queue_full`: the group of the limit that the start counts in, if the limit has a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `limit_reached`, `queue_full`: what the start has met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    /// `max_concurrent_runs`, `limit_reached`, `queue_full`: the live runs. `lock_quota`: the locks, or requests that wait.
    /// `stale_fence`: the store's fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// `stale_fence`: the fence that was presented, or that the presented token had; 0 if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// `idempotency_key_reused`: the run that the key started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// 429, 503 and `lock_held`: when to retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// `outcome_unknown`: whether a retry with the same key is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_with_same_key: Option<bool>,
    /// `lock_held`: who holds it (null if the store does not know), since when, and the caller's place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "even_null")]
    #[schema(value_type = Option<String>)]
    pub holder: Option<RefusedBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// `budget_exhausted`: what is left, and when the budget resets (null if it does not by itself).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "even_null")]
    #[schema(value_type = Option<Time>)]
    pub resets_at: Option<ResetsAt>,
}

/// When an exhausted budget resets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResetsAt {
    At(Time),
    /// Written as null: it does not by itself.
    Never,
}

/// A limit in a refusal: a cap by its number, a named limit by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ReachedLimit {
    Cap(u64),
    Name(LimitName),
}

/// Who holds a lock that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RefusedBy {
    Owner(String),
    /// Written as null: the lock is free and it is another request's turn, or its key holds a foreign value.
    Unknown,
}

/// Unlike serde's default, tells null from an absent member.
fn even_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Problem {
    /// A problem without further members. `error` is one sentence for people.
    pub fn new(code: Code, error: impl Into<String>) -> Self {
        let error = error.into();
        Self {
            r#type: format!("urn:interlock:error:{}", code.name()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: error.clone(),
            code,
            error,
            ..Self::default()
        }
    }

    /// Replaces the sentence for people.
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
            problem.limit = Some(ReachedLimit::Cap(2));
            problem.current = Some(9_007_199_254_740_991);
            problem.retry_after_ms = Some(1_250);
            problem.retry_with_same_key = Some(false);
            let text = serde_json::to_string(&problem).unwrap();
            assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        }
    }

    #[test]
    fn a_limit_is_written_as_a_number_or_as_a_name() {
        let name = ReachedLimit::Name("7".parse().unwrap());
        for (limit, written) in [(ReachedLimit::Cap(7), json!(7)), (name, json!("7"))] {
            assert_eq!(serde_json::to_value(&limit).unwrap(), written);
            assert_eq!(serde_json::from_value::<ReachedLimit>(written).unwrap(), limit);
        }
    }

    #[test]
    fn an_unknown_holder_is_written_as_null_and_read_back() {
        let owner = RefusedBy::Owner("ada".to_owned());
        for (holder, written) in [(owner, json!("ada")), (RefusedBy::Unknown, json!(null))] {
            let mut problem = Problem::new(Code::LockHeld, "not now");
            problem.holder = Some(holder);
            let value = serde_json::to_value(&problem).unwrap();
            assert_eq!(value.get("holder"), Some(&written));
            assert_eq!(serde_json::from_value::<Problem>(value).unwrap(), problem);
        }
    }

    #[test]
    fn members_that_do_not_apply_are_left_out() {
        let written = serde_json::to_value(Problem::new(Code::NotFound, "run x not found")).unwrap();
        let names: Vec<_> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        assert_eq!(written["status"], json!(404));
    }

    #[test]
    fn a_code_of_a_newer_server_does_not_make_the_problem_unreadable() {
        assert_eq!(serde_json::from_value::<Code>(json!("from_the_future")).unwrap(), Code::Unrecognized);
    }
}
