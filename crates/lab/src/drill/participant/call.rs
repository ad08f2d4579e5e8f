//! The outcome of a call to the server.

use std::time::Duration;

use interlock_api::Code;
use interlock_api::client::{Error, Result};

use crate::drill::protocol::DrillOutcome;

/// How often a call without a response is sent. All of them are safe to repeat.
const CALLS_MAX: u32 = 4;

const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallResult {
    pub(super) outcome: DrillOutcome,
    pub(super) detail: String,
}

impl CallResult {
    pub(super) fn new(outcome: DrillOutcome, detail: impl Into<String>) -> Self {
        Self { outcome, detail: detail.into() }
    }

    /// The result of a write.
    pub(super) fn of<T>(result: &Result<T>) -> Self {
        let Err(error) = result else { return Self::new(DrillOutcome::Accepted, "accepted") };
        match error {
            Error::Problem(problem) => {
                Self::new(outcome(problem.code), format!("{} {}", problem.status, problem.code.name()))
            }
            // A success status means that the write took effect, whatever the body says.
            Error::Malformed { status, .. } if (200..300).contains(status) => {
                Self::new(DrillOutcome::Accepted, format!("{status}, unreadable"))
            }
            Error::Malformed { .. } | Error::Unreachable { .. } | Error::Settings(_) => {
                Self::new(DrillOutcome::Unknown, error.to_string())
            }
        }
    }

    /// The result of an acquisition. A grant that cannot be read cannot be used.
    pub(super) fn of_grant<T>(result: &Result<T>) -> Self {
        let call = Self::of(result);
        match result {
            Err(_) if call.outcome == DrillOutcome::Accepted => {
                Self { outcome: DrillOutcome::Unknown, ..call }
            }
            _ => call,
        }
    }
}

fn outcome(code: Code) -> DrillOutcome {
    if code == Code::StaleFence {
        DrillOutcome::Stale
    } else if code == Code::LockHeld {
        DrillOutcome::Held
    } else {
        // Refused for another reason, which proves nothing about fences.
        DrillOutcome::Unknown
    }
}

/// Repeats a call until it has a response. The connection may have been closed during a pause.
pub(super) async fn with_retry<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> Result<T> {
    let mut calls = 1;
    loop {
        match call().await {
            Err(error) if error.is_transient() && calls < CALLS_MAX => calls += 1,
            result => return result,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use interlock_api::Problem;

    use super::*;

    fn problem(code: Code) -> Error {
        Error::Problem(Box::new(Problem::new(code, "no")))
    }

    #[test]
    fn only_a_stale_fence_is_stale_and_only_a_held_lock_is_held() {
        let codes = |expected| Code::ALL.into_iter().filter(move |code| outcome(*code) == expected);
        assert_eq!(codes(DrillOutcome::Stale).collect::<Vec<_>>(), [Code::StaleFence]);
        assert_eq!(codes(DrillOutcome::Held).collect::<Vec<_>>(), [Code::LockHeld]);
        assert_eq!(codes(DrillOutcome::Unknown).count(), Code::ALL.len() - 2);
        let stale = CallResult::of::<()>(&Err(problem(Code::StaleFence)));
        assert_eq!(stale, CallResult::new(DrillOutcome::Stale, "409 stale_fence"));
    }

    #[test]
    fn an_unreadable_success_is_an_accepted_write_but_an_unknown_grant() {
        let malformed = |status| -> Result<()> {
            Err(Error::Malformed { action: "POST /x".to_owned(), status, reason: "?".to_owned() })
        };
        assert_eq!(CallResult::of(&malformed(200)).outcome, DrillOutcome::Accepted);
        assert_eq!(CallResult::of_grant(&malformed(200)).outcome, DrillOutcome::Unknown);
        assert_eq!(CallResult::of(&malformed(502)).outcome, DrillOutcome::Unknown);
        assert_eq!(CallResult::of(&Ok(())).outcome, DrillOutcome::Accepted);
        assert_eq!(CallResult::of_grant(&Ok(())).outcome, DrillOutcome::Accepted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_response_is_retried_and_a_refusal_is_not() {
        let calls = Cell::new(0);
        let lost_at_first = || {
            calls.set(calls.get() + 1);
            let result = match calls.get() {
                1 => Err(Error::Unreachable { gateway: String::new(), reason: String::new() }),
                2 => Err(problem(Code::OutcomeUnknown)),
                _ => Err(problem(Code::StaleFence)),
            };
            async { result as Result<()> }
        };
        assert_eq!(with_retry(lost_at_first).await.unwrap_err().code(), Some(Code::StaleFence));
        assert_eq!(calls.get(), 3);
    }
}
