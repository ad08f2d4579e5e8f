//! Where a run waits, and which slots it holds.

use serde::{Deserialize, Serialize};

use super::GroupKey;
use super::document::QueueOrder;
use super::fair::{self, ApprovalTime, FairClaim};
use super::group::{Fullness, Quiet};
use super::rule::SlotClaim;
use crate::tenant::SlotFlow;
use crate::{LimitName, RunId, Timestamp, WorkflowId};

/// How soon a run starts among those that wait: 9 first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct StartPriority(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use a priority from 0 to 9")]
pub struct InvalidPriority;

impl StartPriority {
    const HIGHEST: u8 = 9;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for StartPriority {
    fn default() -> Self {
        Self(4)
    }
}

impl TryFrom<u8> for StartPriority {
    type Error = InvalidPriority;

    fn try_from(level: u8) -> Result<Self, InvalidPriority> {
        if level <= Self::HIGHEST { Ok(Self(level)) } else { Err(InvalidPriority) }
    }
}

impl From<StartPriority> for u8 {
    fn from(priority: StartPriority) -> Self {
        priority.0
    }
}

/// Milliseconds of waiting that count as one level.
const LEVEL_MS: u64 = 60_000;

/// The scores of queues by priority begin here, above those of queues by arrival: a run shows in which order it waits.
pub const PRIORITY_SCORES: u64 = 250_000_000_000_000;

/// Times in milliseconds begin here, where numbers of arrivals end: an earlier version had such scores.
pub const TIME_SCORES: u64 = 1_000_000_000_000;

/// The scores with which a run waits in a queue of this order since before the order has changed: from, and until before.
pub fn scores_of_other_orders(order: QueueOrder) -> &'static [(u64, u64)] {
    match order {
        QueueOrder::Fifo => &[(TIME_SCORES, u64::MAX)],
        QueueOrder::Priority => &[(0, PRIORITY_SCORES), (fair::LANE, u64::MAX)],
        // One with 0 was put before all groups.
        QueueOrder::Fair => &[(1, fair::LANE)],
    }
}

/// The place of a run among those that wait. It keeps it when it moves to another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePlace {
    /// Its number among the runs of its tenant that have ever waited.
    pub arrival: u64,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "StartPriority::is_usual")]
    pub priority: StartPriority,
}

impl QueuePlace {
    /// The run with the smallest number goes first; of equal ones, the one that arrived first. A run that gains a level per
    /// minute keeps its distance to all others, so that this number never changes.
    pub fn score(&self, order: QueueOrder) -> u64 {
        let urgency = self.at.as_millis() + u64::from(StartPriority::HIGHEST - self.priority.0) * LEVEL_MS;
        match order {
            QueueOrder::Fifo => self.arrival,
            QueueOrder::Priority => PRIORITY_SCORES + urgency,
            QueueOrder::Fair => urgency,
        }
    }
}

/// In which queue a run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub limit: LimitName,
    pub group: GroupKey,
    /// In the order of the queue, or of its fair group, when it entered.
    pub score: u64,
    pub place: QueuePlace,
    /// The group of a fair queue in which it waits. None: it waits in no such group, or before all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<GroupKey>,
}

impl Waiting {
    pub fn claim(&self) -> SlotClaim {
        SlotClaim { limit: self.limit.clone(), group: self.group.clone() }
    }

    /// Its place among all runs of the queue.
    pub fn score_of_all(&self) -> u64 {
        if self.fair.is_some() { fair::LANE + self.place.arrival } else { self.score }
    }
}

/// The groups of named limits that a run counts in, and where it waits for their slots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSlots {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<SlotClaim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// It waits for newer starts, and stands in no queue yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounced: Option<Debounced>,
    /// Idempotency keys of other starts that this run answers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub joined_keys: u32,
    /// The groups of fair queues that are charged for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fair: Vec<FairClaim>,
    #[serde(default, skip_serializing_if = "ApprovalTime::is_none")]
    pub approvals: ApprovalTime,
    /// The run whose step waits for this one, which runs in the slot of its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
}

impl RunSlots {
    /// The group that is charged for it in a queue of this limit. A run that was accepted before the queue was fair, or
    /// whose root was or does not count there, belongs to the group without a name.
    pub fn fair_group(&self, limit: &LimitName) -> GroupKey {
        let of_limit = self.fair.iter().find(|claim| claim.limit == *limit);
        of_limit.map(|claim| claim.group.clone()).unwrap_or_default()
    }
}

/// A run that waits until no newer start of its workflow and group has come for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debounced {
    pub limit: LimitName,
    pub group: GroupKey,
    pub workflow: WorkflowId,
    /// That of the newest start.
    pub place: QueuePlace,
    pub first_at: Timestamp,
    pub quiet: Quiet,
    /// The id with which the newest start was sent. None: an earlier version wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<RunId>,
}

impl Debounced {
    pub fn claim(&self) -> SlotClaim {
        SlotClaim { limit: self.limit.clone(), group: self.group.clone() }
    }

    /// Where it waits, as far as it waits in a group.
    pub fn waiting(&self) -> Waiting {
        let Self { limit, group, place, .. } = self.clone();
        Waiting { limit, group, score: place.arrival, place, fair: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Idempotency keys of other starts that one run answers.
pub const JOINED_KEYS_MAX: u32 = 1_000;

/// What keeps a start from its slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    pub limit: LimitName,
    pub group: GroupKey,
    pub fullness: Fullness,
    /// Runs that hold a slot of the group.
    pub live: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_max: Option<u32>,
    /// Runs that wait in the group's queue.
    pub queued: u32,
    pub slot_flow: SlotFlow,
}

/// A run that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedRun {
    pub run: RunId,
    pub waiting: Waiting,
    /// From 1. None: further back than is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// It waits for newer starts, and not in the queue yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
}

/// Runs that go first are counted up to here.
pub const POSITIONS_COUNTED: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(arrival: u64, second: u64, priority: u8) -> QueuePlace {
        let at = Timestamp::from_millis(second * 1_000);
        QueuePlace { arrival, at, priority: priority.try_into().unwrap() }
    }

    #[test]
    fn a_run_gains_one_level_for_each_minute_that_it_waits() {
        let score = |place: QueuePlace| place.score(QueueOrder::Priority);
        let low = score(place(1, 0, 2));
        assert!(score(place(2, 59, 3)) < low, "a level is worth a minute");
        assert_eq!(score(place(2, 60, 3)), low, "of equals, the first goes first");
        assert!(score(place(2, 61, 3)) > low);
        assert!(score(place(9, 400, 9)) < low);
        assert!(place(2, 400, 9).score(QueueOrder::Fifo) > place(1, 0, 0).score(QueueOrder::Fifo));
    }

    #[test]
    fn priorities_are_bounded() {
        assert!(StartPriority::try_from(10).is_err());
        assert_eq!(u8::from(StartPriority::default()), 4);
    }
}
