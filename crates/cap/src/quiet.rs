//! Warnings about what others send: told, but never as often as they like.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(10);

/// Lets one warning through in a while, with the number of those that it kept back.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    kept_back: u64,
}

impl Quiet {
    /// How many warnings were kept back since the last, if it is time for one.
    pub(crate) fn may_warn(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| last.elapsed() < PAUSE) {
            state.kept_back += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_becomes_one_warning_with_a_number() {
        let quiet = Quiet::default();
        assert_eq!(quiet.may_warn(), Some(0));
        for _ in 0..1_000 {
            assert_eq!(quiet.may_warn(), None);
        }
        tokio::time::advance(PAUSE).await;
        assert_eq!(quiet.may_warn(), Some(1_000));
    }
}
