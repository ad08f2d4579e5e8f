//! Clocks. A store has one, and only that decides when something has expired.

use std::time::UNIX_EPOCH;

use interlock_model::time::millis;
use interlock_model::{Clock, Timestamp};
use tokio::time::Instant;

/// The machine's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one place where the time comes in")]
        let now = std::time::SystemTime::now();
        Timestamp::from_millis(now.duration_since(UNIX_EPOCH).map_or(0, millis))
    }
}

/// A clock that goes with tokio's, which a simulation pauses and moves.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeClock {
    started: Instant,
    epoch: Timestamp,
}

impl RuntimeClock {
    /// A clock that shows `epoch` now.
    #[must_use]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { started: Instant::now(), epoch }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.epoch + self.started.elapsed()
    }
}

/// A clock that only a test moves.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct ManualClock(std::sync::atomic::AtomicU64);

#[cfg(feature = "testing")]
impl ManualClock {
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        Self(std::sync::atomic::AtomicU64::new(now.as_millis()))
    }

    pub fn advance(&self, time: std::time::Duration) {
        self.0.fetch_add(millis(time), std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "testing")]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}
