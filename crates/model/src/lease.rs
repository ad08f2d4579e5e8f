//! Leases run out; fences only grow. A write carries the fence of its lease, and the store refuses a stale one.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A number that only grows within a tenant: who holds the larger one came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(u64);

/// Fences travel as JSON integers, which many readers hold as doubles.
pub const FENCE_MAX: u64 = (1 << 53) - 1;

impl Fence {
    /// Smaller than every fence that was ever given out.
    pub const NONE: Self = Self(0);

    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The fence after this one. It is at least the time in microseconds, so that it also grows past a store which
    /// forgot its last writes in a failover.
    #[must_use]
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
    fn a_fence_grows_even_when_the_clock_stands_or_goes_back() {
        let first = Fence::NONE.next(Timestamp::from_millis(5_000));
        let second = first.next(Timestamp::from_millis(5_000));
        let third = second.next(Timestamp::from_millis(1));
        assert!(first < second && second < third);
    }

    #[test]
    fn a_store_that_forgot_its_fences_goes_on_above_them() {
        let known = Fence::NONE.next(Timestamp::from_millis(5_000));
        assert!(Fence::NONE.next(Timestamp::from_millis(5_001)) > known);
    }
}
