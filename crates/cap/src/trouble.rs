//! Pushes that fail: each costs its job one of its dispatches, so the next is not tried at once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How many pushes have failed in a row, and when the next may be tried.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    until: Option<Instant>,
}

impl Trouble {
    pub(crate) fn failed(&self, pause: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = pause.saturating_mul(2_u32.saturating_pow(state.failures)).min(PAUSE_MAX);
        state.failures = state.failures.saturating_add(1);
        state.until = Some(Instant::now() + grown);
    }

    pub(crate) fn over(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    pub(crate) fn is_there(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failures > 0
    }

    pub(crate) fn is_to_be_waited_out(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_it_is_over() {
        let trouble = Trouble::default();
        let pause = Duration::from_secs(2);
        for expected in [2, 4, 8, 16, 30, 30] {
            trouble.failed(pause);
            tokio::time::advance(Duration::from_millis(expected * 1_000 - 1)).await;
            assert!(trouble.is_to_be_waited_out(), "{expected}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!trouble.is_to_be_waited_out() && trouble.is_there(), "{expected}");
        }
        trouble.over();
        assert!(!trouble.is_there());
        trouble.failed(pause);
        tokio::time::advance(pause).await;
        assert!(!trouble.is_to_be_waited_out());
    }
}
