//! What the server said, as the drill wants to know it.

use std::time::Duration;

use interlock_api::Code;
use interlock_api::client::{Error, Result};

use crate::drill::verdict::Answer;

/// How often a write is sent whose answer was lost. All of them are safe to repeat.
const CALLS_MAX: u32 = 4;

const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) answer: Answer,
    pub(super) words: String,
}

impl Told {
    pub(super) fn new(answer: Answer, words: impl Into<String>) -> Self {
        Self { answer, words: words.into() }
    }

    pub(super) fn of<T>(result: &Result<T>) -> Self {
        let Err(error) = result else { return Self::new(Answer::Accepted, "accepted") };
        match error {
            Error::Problem(problem) => {
                Self::new(meaning(problem.code), format!("{} {}", problem.status, problem.code.name()))
            }
            // Whatever else it says, it says that it is done.
            Error::Malformed { status, .. } if (200..300).contains(status) => {
                Self::new(Answer::Accepted, format!("{status}, unreadable"))
            }
            Error::Malformed { .. } | Error::Unreachable { .. } | Error::Settings(_) => {
                Self::new(Answer::Unclear, error.to_string())
            }
        }
    }
}

fn meaning(code: Code) -> Answer {
    if code == Code::StaleFence {
        Answer::Stale
    } else if code == Code::LockHeld {
        Answer::Held
    } else {
        // Refused, but not for what the drill is about: nothing follows from it.
        Answer::Unclear
    }
}

/// Sends a write until an answer comes. A connection that was idle for a whole pause may be closed.
pub(super) async fn answered<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> Result<T> {
    let mut calls = 1;
    loop {
        match call().await {
            Err(error) if error.is_passing() && calls < CALLS_MAX => calls += 1,
            end => return end,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use interlock_api::Problem;

    use super::*;

    fn told(error: Error) -> (Answer, String) {
        let Told { answer, words } = Told::of::<()>(&Err(error));
        (answer, words)
    }

    fn problem(code: Code) -> Error {
        Error::Problem(Box::new(Problem::new(code, "no")))
    }

    #[test]
    fn only_a_stale_fence_is_stale_and_only_a_held_lock_is_held() {
        let means = |answer| Code::ALL.into_iter().filter(move |code| meaning(*code) == answer);
        assert_eq!(means(Answer::Stale).collect::<Vec<_>>(), [Code::StaleFence]);
        assert_eq!(means(Answer::Held).collect::<Vec<_>>(), [Code::LockHeld]);
        assert_eq!(means(Answer::Unclear).count(), Code::ALL.len() - 2);
        assert_eq!(told(problem(Code::StaleFence)), (Answer::Stale, "409 stale_fence".to_owned()));
    }

    #[test]
    fn a_status_that_says_done_counts_as_done() {
        let malformed =
            |status| Error::Malformed { action: "POST /x".to_owned(), status, reason: "?".to_owned() };
        assert_eq!(told(malformed(200)).0, Answer::Accepted);
        assert_eq!(told(malformed(502)).0, Answer::Unclear);
        assert_eq!(Told::of(&Ok(())).answer, Answer::Accepted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_asked_for_again_and_a_refusal_is_not() {
        let calls = Cell::new(0);
        let lost_at_first = || {
            calls.set(calls.get() + 1);
            let end = match calls.get() {
                1 => Err(Error::Unreachable { gateway: String::new(), reason: String::new() }),
                2 => Err(problem(Code::OutcomeUnknown)),
                _ => Err(problem(Code::StaleFence)),
            };
            async { end as Result<()> }
        };
        assert_eq!(answered(lost_at_first).await.unwrap_err().code(), Some(Code::StaleFence));
        assert_eq!(calls.get(), 3);
    }
}
