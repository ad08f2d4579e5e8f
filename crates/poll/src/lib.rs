//! Waiting for a condition in tests: one loop, one limit, and an error that says what was seen last.
//!
//! A test waits with [`until`] or [`until_matches`], which panic at the limit. Code that reports errors uses
//! [`try_until`].

use std::fmt::{self, Debug};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything may take before a test gives up on it. Generous, because machines are busy: a test that passes
/// never waits for it.
pub const LIMIT: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(10);

/// What one look at a condition returns: `bool`, `Option<T>`, or `Result<T, E>` with what was seen instead.
pub trait Observation {
    type Value;

    /// The value, or what was seen instead of it.
    fn into_result(self) -> Result<Self::Value, Option<String>>;
}

impl Observation for bool {
    type Value = ();

    fn into_result(self) -> Result<(), Option<String>> {
        if self { Ok(()) } else { Err(None) }
    }
}

impl<T> Observation for Option<T> {
    type Value = T;

    fn into_result(self) -> Result<T, Option<String>> {
        self.ok_or(None)
    }
}

impl<T, E: Debug> Observation for Result<T, E> {
    type Value = T;

    fn into_result(self) -> Result<T, Option<String>> {
        self.map_err(|instead| Some(format!("{instead:?}")))
    }
}

/// The limit was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedOut {
    condition: String,
    instead: Option<String>,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not within {LIMIT:?}: {}", self.condition)?;
        self.instead.as_ref().map_or(Ok(()), |instead| write!(out, "; instead: {instead}"))
    }
}

impl std::error::Error for TimedOut {}

/// Looks again and again until the condition holds, and returns the value that was seen. Panics at the [`LIMIT`].
///
/// `condition` is a sentence for the panic, such as `the run ends`.
pub async fn until<O, F>(condition: &str, look: impl FnMut() -> F) -> O::Value
where
    O: Observation,
    F: Future<Output = O>,
{
    match try_until(condition, look).await {
        Ok(value) => value,
        Err(timed_out) => panic!("{timed_out}"),
    }
}

/// Looks again and again until `matches` accepts what is seen, and returns that. Panics at the [`LIMIT`] with what was
/// seen last.
pub async fn until_matches<T, F>(
    condition: &str,
    mut look: impl FnMut() -> F,
    matches: impl Fn(&T) -> bool,
) -> T
where
    T: Debug,
    F: Future<Output = T>,
{
    let matches = &matches;
    until(condition, || {
        let seen = look();
        async move {
            let seen = seen.await;
            if matches(&seen) { Ok(seen) } else { Err(seen) }
        }
    })
    .await
}

/// As [`until`], for code that reports errors.
pub async fn try_until<O, F>(condition: &str, mut look: impl FnMut() -> F) -> Result<O::Value, TimedOut>
where
    O: Observation,
    F: Future<Output = O>,
{
    let end = Instant::now() + LIMIT;
    loop {
        match look().await.into_result() {
            Ok(value) => return Ok(value),
            Err(instead) if Instant::now() >= end => {
                return Err(TimedOut { condition: condition.to_owned(), instead });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_returned_as_soon_as_it_is_seen() {
        let mut looks = 0;
        let seen = until("the third look", || {
            looks += 1;
            ready((looks == 3).then_some("value"))
        });
        assert_eq!(seen.await, "value");
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_looked_at_until_it_matches() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            ready(looks)
        };
        assert_eq!(until_matches("the third look", look, |looks| *looks == 3).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_at_the_limit_says_what_was_seen_last() {
        let began = Instant::now();
        let error = try_until("the run ends", async || Err::<(), _>("running")).await.unwrap_err();
        assert_eq!(error.to_string(), "not within 60s: the run ends; instead: \"running\"");
        assert!(began.elapsed() >= LIMIT);
        let error = try_until("the run ends", async || false).await.unwrap_err();
        assert_eq!(error.to_string(), "not within 60s: the run ends");
    }
}
