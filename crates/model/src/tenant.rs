//! The store's record of a tenant.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limit::Limits;
use crate::limit::document::Pause;
use crate::time::millis;
use crate::{Fence, Timestamp};

/// How fast a tenant's slots become free, for the `Retry-After` of a rejected start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotFlow {
    /// When a slot last became free.
    pub freed_at: Option<Timestamp>,
    /// Running mean of the time between two released slots.
    pub interval_ms: Option<u64>,
}

impl SlotFlow {
    /// The flow after another slot was released at `now`.
    pub fn freed(self, now: Timestamp) -> Self {
        let interval_ms = match (self.freed_at, self.interval_ms) {
            (None, _) => None,
            (Some(last), None) => Some(millis(now.since(last))),
            // A weight of one quarter follows a change within a few runs without jumping at each.
            (Some(last), Some(mean)) => Some((mean * 3 + millis(now.since(last))) / 4),
        };
        Self { freed_at: Some(now), interval_ms }
    }

    /// The expected wait for the next slot, if enough is known.
    pub fn expected_wait(self) -> Option<Duration> {
        self.interval_ms.map(Duration::from_millis)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    pub limits: Limits,
    /// Raised by every change of the limits.
    pub revision: u64,
    /// Runs that hold a slot now.
    pub runs_active: u32,
    pub slot_flow: SlotFlow,
    /// Runs that wait in the queue of the tenant's own slots.
    #[serde(default)]
    pub runs_queued: u32,
    /// Runs that have ever waited, in any queue: the number of the last is its place.
    #[serde(default)]
    pub arrivals: u64,
    /// No run starts while the tenant is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Named limits that it has.
    #[serde(default)]
    pub named_limits: u32,
    /// Raised by every change of its named limits.
    #[serde(default)]
    pub limits_revision: u64,
    /// The last minted fence. The next is larger, whatever the clock says.
    pub fence: Fence,
    #[serde(default)]
    pub dead_letters: u32,
    /// Dead letters that were deleted to make room for newer ones.
    #[serde(default)]
    pub dead_letters_dropped: u64,
    /// Workflow ids that it has used, those of deleted workflows included.
    #[serde(default)]
    pub workflows: u32,
    /// Workers on HTTP that are known.
    #[serde(default)]
    pub workers: u32,
}

impl Tenant {
    pub fn mint_fence(&mut self, now: Timestamp) -> Fence {
        self.fence = self.fence.next(now);
        self.fence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_wait_follows_the_rate_of_released_slots() {
        let at = |secs: u64| Timestamp::from_millis(secs * 1_000);
        let flow = SlotFlow::default().freed(at(10));
        assert_eq!(flow.expected_wait(), None);
        let flow = flow.freed(at(14)).freed(at(18));
        assert_eq!(flow.expected_wait(), Some(Duration::from_secs(4)));
        assert!(flow.freed(at(38)).expected_wait() > Some(Duration::from_secs(4)));
    }
}
