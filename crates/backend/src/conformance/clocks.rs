//! Clocks that a test controls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_model::time::millis;
use interlock_model::{Clock, Timestamp};
use tokio::time::Instant;

/// A clock that follows tokio's, which a simulation pauses and moves.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeClock {
    started: Instant,
    epoch: Timestamp,
}

impl RuntimeClock {
    /// A clock that shows `epoch` now.
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
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn starting_at(now: Timestamp) -> Self {
        Self(AtomicU64::new(now.as_millis()))
    }

    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(millis(time), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
