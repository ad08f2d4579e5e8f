//! Fences. Leases expire, but fences only grow: a write carries the fence of its lease, and the store rejects a stale one.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A number that only grows within a tenant. A larger fence belongs to a later lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(u64);

/// Fences are JSON integers, which many parsers read as doubles.
pub const FENCE_MAX: u64 = (1 << 53) - 1;

impl Fence {
    /// Smaller than every minted fence.
    pub const NONE: Self = Self(0);

    pub fn new(number: u64) -> Self {
        Self(number)
    }

    pub fn number(self) -> u64 {
        self.0
    }

    /// The fence after this one: at least the time in microseconds, so that it also exceeds the fences that a failover
    /// lost.
    pub fn next(self, now: Timestamp) -> Self {
        let next = (self.0 + 1).max(now.as_micros());
        assert!(next <= FENCE_MAX, "fences stay below 2^53 until the year 2255");
        Self(next)
    }
}

impl std::fmt::Display for Fence {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_grows_even_when_the_clock_stops_or_goes_back() {
        let first = Fence::NONE.next(Timestamp::from_millis(5_000));
        let second = first.next(Timestamp::from_millis(5_000));
        let third = second.next(Timestamp::from_millis(1));
        assert!(first < second && second < third);
    }

    #[test]
    fn a_store_that_lost_its_fences_continues_above_them() {
        let known = Fence::NONE.next(Timestamp::from_millis(5_000));
        assert!(Fence::NONE.next(Timestamp::from_millis(5_001)) > known);
    }
}
