//! Clocks. A store has one, and only that decides when something has expired.

use std::time::UNIX_EPOCH;

use interlock_model::time::millis;
use interlock_model::{Clock, Timestamp};

#[cfg(feature = "testing")]
pub use crate::conformance::clocks::{ManualClock, RuntimeClock};

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
