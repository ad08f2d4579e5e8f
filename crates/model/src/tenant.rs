//! What the store remembers of a tenant itself: its limits, its live runs and its last fence.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limit::Limits;
use crate::time::millis;
use crate::{Fence, Timestamp};

/// How fast a tenant's slots come free, so that a refused start can be told when to come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotFlow {
    /// When a slot last came free.
    pub freed_at: Option<Timestamp>,
    /// Running mean of the time between two slots coming free.
    pub interval_ms: Option<u64>,
}

impl SlotFlow {
    /// The flow after one more slot came free at `now`.
    #[must_use]
    pub fn freed(self, now: Timestamp) -> Self {
        let interval_ms = match (self.freed_at, self.interval_ms) {
            (None, _) => None,
            (Some(last), None) => Some(millis(now.since(last))),
            // A quarter of the newest: follows a change within a few runs without jumping at each.
            (Some(last), Some(mean)) => Some((mean * 3 + millis(now.since(last))) / 4),
        };
        Self { freed_at: Some(now), interval_ms }
    }

    /// The expected wait for the next slot, if enough is known.
    #[must_use]
    pub fn expected_wait(self) -> Option<Duration> {
        self.interval_ms.map(Duration::from_millis)
    }
}

/// One tenant, as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    pub limits: Limits,
    /// Raised with every change of the limits.
    pub revision: u64,
    /// Runs that hold a slot now.
    pub runs_active: u32,
    pub slot_flow: SlotFlow,
    /// The last fence given out. The next is larger, whatever the clock says.
    pub fence: Fence,
    /// Dead letters that are kept now, and how many made room for others since the tenant exists.
    #[serde(default)]
    pub dead_letters: u32,
    #[serde(default)]
    pub dead_letters_dropped: u64,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            revision: 0,
            runs_active: 0,
            slot_flow: SlotFlow::default(),
            fence: Fence::NONE,
            dead_letters: 0,
            dead_letters_dropped: 0,
        }
    }
}

impl Tenant {
    /// Gives out the next fence.
    pub fn mint_fence(&mut self, now: Timestamp) -> Fence {
        self.fence = self.fence.next(now);
        self.fence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_wait_follows_the_pace_at_which_slots_come_free() {
        let at = |secs: u64| Timestamp::from_millis(secs * 1_000);
        let flow = SlotFlow::default().freed(at(10));
        assert_eq!(flow.expected_wait(), None);
        let flow = flow.freed(at(14)).freed(at(18));
        assert_eq!(flow.expected_wait(), Some(Duration::from_secs(4)));
        assert!(flow.freed(at(38)).expected_wait() > Some(Duration::from_secs(4)));
    }
}
