//! Clocks. A store has one, and only that decides when something has expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, UNIX_EPOCH};

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

/// Follows elapsed time: it begins at the wall clock, and then neither goes back nor jumps, whatever is done to the wall
/// clock. Leases, delays and timeouts last as long as they say.
#[derive(Debug)]
pub struct ElapsedClock {
    began: Instant,
    /// What it showed when it began.
    origin: AtomicU64,
    wall: Arc<dyn Clock>,
}

impl ElapsedClock {
    pub fn beginning_at(wall: Arc<dyn Clock>) -> Self {
        Self { began: Instant::now(), origin: AtomicU64::new(wall.now().as_millis()), wall }
    }
}

impl Clock for ElapsedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.origin.load(Ordering::SeqCst)) + self.began.elapsed()
    }

    fn catch_up_with(&self, mark: Timestamp) {
        self.origin.fetch_add(millis(mark.since(self.now())), Ordering::SeqCst);
    }

    fn wall_lead(&self) -> i64 {
        let (wall, own) = (self.wall.now().as_millis(), self.now().as_millis());
        let lead = i64::try_from(wall.abs_diff(own)).unwrap_or(i64::MAX);
        if wall >= own { lead } else { -lead }
    }
}
