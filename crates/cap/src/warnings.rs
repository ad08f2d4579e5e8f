//! Warnings about what others send, at a limited rate.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(10);

/// Lets one warning through per pause, with the number of those that it suppressed.
#[derive(Debug, Default)]
pub(crate) struct WarningLimit {
    state: Mutex<WarningState>,
}

#[derive(Debug, Default)]
struct WarningState {
    last: Option<Instant>,
    suppressed: u64,
}

impl WarningLimit {
    /// How many warnings were suppressed since the last, if the next may be logged.
    pub(crate) fn may_warn(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| last.elapsed() < PAUSE) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// Logs a warning unless the limit suppresses it.
macro_rules! warn_limited {
    ($limit:expr, $($event:tt)+) => {
        if let Some(suppressed) = $limit.may_warn() {
            tracing::warn!(suppressed, $($event)+);
        }
    };
}
pub(crate) use warn_limited;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_becomes_one_warning_with_a_number() {
        let limit = WarningLimit::default();
        assert_eq!(limit.may_warn(), Some(0));
        for _ in 0..1_000 {
            assert_eq!(limit.may_warn(), None);
        }
        tokio::time::advance(PAUSE).await;
        assert_eq!(limit.may_warn(), Some(1_000));
    }
}
