//! Backoff after failed pushes: each costs its job a dispatch, so the next is not tried at once.

use std::time::Duration;

use tokio::time::Instant;

const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How many pushes have failed in a row, and when the next may be tried.
#[derive(Debug, Default)]
pub(crate) struct PushBackoff {
    failures: u32,
    until: Option<Instant>,
}

impl PushBackoff {
    pub(crate) fn fail(&mut self, pause: Duration) {
        let grown = pause.saturating_mul(2_u32.saturating_pow(self.failures)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(Instant::now() + grown);
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_with_each_failure_in_a_row() {
        let mut backoff = PushBackoff::default();
        assert!(!backoff.is_failing() && !backoff.is_waiting());
        for expected in [2, 4, 8, 16, 30, 30] {
            backoff.fail(Duration::from_secs(2));
            tokio::time::advance(Duration::from_millis(expected * 1_000 - 1)).await;
            assert!(backoff.is_waiting(), "{expected}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!backoff.is_waiting() && backoff.is_failing(), "{expected}");
        }
    }
}
