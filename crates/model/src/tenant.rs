//! The store's record of a tenant.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::EventTally;
use crate::limit::Limits;
use crate::limit::document::Pause;
use crate::time::millis;
use crate::{Fence, Timestamp};

/// How fast the slots of a tenant or of a group come free, for `Retry-After` and for the expected wait of a queued run.
///
/// A mean over all releases of about the last minute, or of the last few gaps where these are longer: runs that end
/// together, as those of a burst do, count as one gap and many releases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotFlow {
    /// The last release; or the first slot taken since then, if none was taken at the time. Idle time does not count.
    pub since: Option<Timestamp>,
    /// Slots released, in parts of `SlotFlow::ONE`. Older ones count less.
    #[serde(default)]
    pub releases: u64,
    /// Milliseconds in which they came free, in the same parts.
    #[serde(default)]
    pub time: u64,
}

impl SlotFlow {
    const ONE: u64 = 256;
    /// A gap of this length halves what came before it; shorter ones take their share.
    const HALVING: u64 = 60_000;
    /// Keeps all numbers exact in the scripts of Redis, which count in doubles.
    const GAP_MAX: u64 = 3 * 24 * 3_600_000;

    /// A slot is taken while no other one is.
    pub fn resumed(self, now: Timestamp) -> Self {
        Self { since: Some(now), ..self }
    }

    /// The flow after another slot was released at `now`.
    pub fn freed(self, now: Timestamp) -> Self {
        let Some(since) = self.since else { return self.resumed(now) };
        let gap = millis(now.since(since)).min(Self::GAP_MAX);
        let fade = |sum: u64| match gap {
            Self::HALVING.. => sum / 2,
            _ => sum * Self::HALVING / (Self::HALVING + gap),
        };
        Self {
            since: Some(now),
            releases: fade(self.releases) + Self::ONE,
            time: fade(self.time) + gap * Self::ONE,
        }
    }

    /// The expected wait for the next slot, if enough is known.
    pub fn expected_wait(self) -> Option<Duration> {
        self.time.checked_div(self.releases).map(Duration::from_millis)
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
    /// Events that were sent to keys and are remembered, and the bytes of those that are kept.
    #[serde(default, skip_serializing_if = "EventTally::is_zero")]
    pub keyed_events: EventTally,
    /// Named limits of its own.
    #[serde(default)]
    pub named_limits: u32,
    /// Named limits that it has from the system.
    #[serde(default)]
    pub system_limits: usize,
    /// The version of the system's named limits that it has.
    #[serde(default)]
    pub system_revision: u64,
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

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    #[test]
    fn the_expected_wait_follows_the_rate_of_released_slots() {
        let flow = SlotFlow::default().resumed(at(10_000));
        assert_eq!(flow.expected_wait(), None);
        let flow = flow.freed(at(14_000)).freed(at(18_000));
        assert_eq!(flow.expected_wait(), Some(Duration::from_secs(4)));
        assert!(flow.freed(at(38_000)).expected_wait() > Some(Duration::from_secs(4)));
    }

    #[test]
    fn runs_that_end_together_do_not_make_the_expected_wait_forget_the_gap_before_them() {
        let mut flow = SlotFlow::default().resumed(at(0));
        for burst in 1..=20 {
            for _ in 0..50 {
                flow = flow.freed(at(burst * 600_000));
            }
        }
        // 50 slots in ten minutes: one every 12 s.
        let wait = flow.expected_wait().unwrap().as_millis();
        assert!((11_000..13_000).contains(&wait), "{wait}");
        let wait = flow.freed(at(21 * 600_000)).expected_wait().unwrap().as_millis();
        assert!((12_000..24_000).contains(&wait), "{wait}");
    }

    #[test]
    fn fast_releases_and_endless_gaps_stay_exact() {
        let mut flow = SlotFlow::default().resumed(at(0));
        for release in 1..=100_000 {
            flow = flow.freed(at(release * 3));
        }
        assert_eq!(flow.expected_wait(), Some(Duration::from_millis(3)), "{flow:?}");
        let flow = flow.freed(at(u64::MAX / 2)).freed(Timestamp::from_millis(u64::MAX));
        assert!(flow.time < 1 << 38, "{flow:?}");
    }
}
