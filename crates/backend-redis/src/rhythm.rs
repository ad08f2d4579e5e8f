//! How this process keeps time: how far its clock is from the store's, and how regularly its pulse comes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interlock_model::Timestamp;
use tokio::time::Instant;

/// For how long a pulse that came late is remembered.
const REMEMBERED: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Rhythm {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Milliseconds, at least: what the way to the store may have cost is not counted.
    ahead: i64,
    last: Option<Instant>,
    /// The longest silence before a pulse of late, and when it ended.
    silence: Option<(Instant, Duration)>,
}

impl Rhythm {
    /// A pulse is about to be sent: how far ahead the clock was at the last one, and how long this process was silent.
    pub(crate) fn report(&self) -> (i64, Duration) {
        let now = Instant::now();
        let mut state = self.state();
        if let Some(silence) = state.last.map(|last| now.duration_since(last)) {
            let longest = state.silence.filter(|(at, _)| now.duration_since(*at) < REMEMBERED);
            if longest.is_none_or(|(_, longest)| silence >= longest) {
                state.silence = Some((now, silence));
            }
        }
        (state.ahead, state.silence.map_or(Duration::ZERO, |(_, silence)| silence))
    }

    /// A pulse was answered: the store's clock said `there` between two moments of our own.
    pub(crate) fn answered(&self, here: (Timestamp, Timestamp), there: Timestamp) {
        let mut state = self.state();
        state.last = Some(Instant::now());
        state.ahead = ahead(here, there);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a clock that showed `here` before and after is certainly ahead of one that showed `there` meanwhile.
fn ahead((before, after): (Timestamp, Timestamp), there: Timestamp) -> i64 {
    let apart = |late: Timestamp, early: Timestamp| {
        i64::try_from(late.as_millis().saturating_sub(early.as_millis())).unwrap_or(i64::MAX)
    };
    if before > there { apart(before, there) } else { -apart(there, after) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn what_the_way_may_have_cost_is_no_skew() {
        assert_eq!(ahead((at(1_000), at(4_000)), at(2_500)), 0);
        assert_eq!(ahead((at(1_000), at(1_000)), at(1_000)), 0);
        assert_eq!(ahead((at(9_000), at(9_500)), at(4_000)), 5_000);
        assert_eq!(ahead((at(1_000), at(1_500)), at(4_000)), -2_500);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_recent_silence_is_reported_and_then_forgotten() {
        let rhythm = Rhythm::default();
        assert_eq!(rhythm.report(), (0, Duration::ZERO), "nothing precedes the first");
        rhythm.answered((at(5_000), at(5_000)), at(3_000));
        for (pause, silence) in [(1, 1), (4, 4), (1, 4), (7, 7), (2, 7), (9, 9), (1, 9)] {
            tokio::time::advance(Duration::from_secs(pause)).await;
            assert_eq!(rhythm.report(), (2_000, Duration::from_secs(silence)));
            rhythm.answered((at(5_000), at(5_000)), at(3_000));
        }
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(1)).await;
            rhythm.report();
            rhythm.answered((at(5_000), at(5_000)), at(3_000));
        }
        assert_eq!(rhythm.report().1, Duration::from_secs(1));
    }
}
