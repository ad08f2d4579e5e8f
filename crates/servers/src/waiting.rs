//! Waiting for a condition, with a limit.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

const LIMIT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(15);

/// What one look at a condition found.
pub(crate) enum Look<T> {
    Seen(T),
    /// With what was seen instead, for the error when the limit is reached.
    NotYet(String),
}

/// Looks until it sees the condition. An error of `look` ends the wait: it says that the condition cannot come.
pub(crate) async fn until<T, F>(condition: &str, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Look<T>>>,
{
    let end = Instant::now() + LIMIT;
    loop {
        match look().await? {
            Look::Seen(value) => return Ok(value),
            Look::NotYet(instead) if Instant::now() >= end => {
                bail!("in {LIMIT:?} it did not happen that {condition}; instead: {instead}")
            }
            Look::NotYet(_) => sleep(PAUSE).await,
        }
    }
}
