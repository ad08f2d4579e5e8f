//! Fair queues: the group that has used the least slot time goes next.
//!
//! Each group is charged for the time that its runs hold slots, divided by its weight. A grant charges what a run of its
//! workflow takes on average, and the end of the run corrects that. Charges are whole microseconds.

use serde::{Deserialize, Serialize};

use super::GroupKey;
use crate::time::millis;
use crate::{LimitName, Timestamp};

/// What a run is charged while no run of its workflow has ended yet: as good as nothing, until its end corrects it. A guess
/// that is too high would have each newcomer enter at that charge, and wait until those before it have used as much.
pub const RUN_MS_UNKNOWN: u64 = 0;

/// Groups whose charges are remembered while none of their runs waits; those with the smallest charges are forgotten first.
pub const REMEMBERED_MAX: u32 = 256;

/// Groups that are looked at to find the position of a run.
pub const GROUPS_COUNTED: usize = 100;

/// Runs that one step moves to their groups, after the order of a queue has changed.
pub const REORDERED_AT_ONCE: usize = 100;

/// In a queue, runs that wait in fair groups stand behind all others, by their arrival: this much is added to it.
pub const LANE: u64 = 500_000_000_000_000;

/// The group of a fair queue that is charged for a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FairClaim {
    pub limit: LimitName,
    pub group: GroupKey,
}

/// What a run was charged when it got its slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairCharge {
    pub group: GroupKey,
    pub amount: u64,
}

/// A group of a fair queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairGroup {
    pub charge: u64,
    /// Of two groups with the same charge, the one with the smaller number goes first: the arrival of the run with which it
    /// began to wait.
    pub turn: u64,
    /// Runs of it that wait.
    pub queued: u32,
}

/// What is known of the groups of a fair queue together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairQueue {
    /// What a group that is always served would be charged by now.
    pub virtual_time: u64,
    /// Groups with waiting runs.
    pub waiting: u32,
    /// Groups without any whose charges are remembered.
    pub remembered: u32,
}

/// What a run of this many milliseconds costs a group of this weight.
pub fn cost(run_ms: u64, weight: u32) -> u64 {
    (run_ms.saturating_mul(1_000) / u64::from(weight.max(1))).max(1)
}

/// How long runs of a workflow hold their slots, after one more.
pub fn run_ms_after(before: Option<u64>, run_ms: u64) -> u64 {
    // A quarter of the newest: follows a change within a few runs without jumping at each.
    before.map_or(run_ms, |mean| (mean.saturating_mul(3).saturating_add(run_ms)) / 4)
}

impl FairQueue {
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }

    /// What a group is charged at least when it begins to wait, or gets a slot at once: it was idle, and brings no more than
    /// one turn with it. `least` is the smallest charge of the groups that wait.
    pub fn least_charge(&self, least: Option<u64>, turn: u64) -> u64 {
        let now = match least {
            Some(least) => self.virtual_time.clamp(least, least.saturating_add(turn)),
            None => self.virtual_time,
        };
        now.saturating_sub(turn)
    }

    /// A group with this charge gets a slot at this cost.
    pub fn acquire(&mut self, charge: u64, cost: u64) {
        self.virtual_time = self.virtual_time.clamp(charge, charge.saturating_add(cost));
    }

    /// Its run has waited, beside this number of other groups: each of them is served for a part of the time.
    pub fn grant(&mut self, charge: u64, cost: u64, others: u32) {
        self.acquire(charge, cost);
        self.virtual_time = self.virtual_time.saturating_add(cost / (u64::from(others) + 1));
    }
}

impl FairGroup {
    /// How many of its runs go before another group's run, if each of them costs the same. `at` is what the other group is
    /// charged when the turn of that run comes, and its number among equals.
    pub fn runs_before(&self, at: (u64, u64), cost: u64) -> u64 {
        let (charge, turn) = at;
        let Some(distance) = charge.checked_sub(self.charge) else { return 0 };
        let cost = cost.max(1);
        // It goes first among equals.
        let ties = u64::from(distance.is_multiple_of(cost) && self.turn < turn);
        (distance.div_ceil(cost) + ties).min(self.queued.into())
    }
}

/// How long a run has waited for approvals: that time is not charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalTime {
    /// Since when at least one approval is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Before that.
    #[serde(default)]
    pub millis: u64,
}

impl ApprovalTime {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub fn until(self, now: Timestamp) -> u64 {
        self.millis + self.since.map_or(0, |since| millis(now.since(since)))
    }

    /// The run begins to wait for an approval, or stops to.
    #[must_use]
    pub fn after(self, is_waiting: bool, now: Timestamp) -> Self {
        match (self.since, is_waiting) {
            (None, true) => Self { since: Some(now), ..self },
            (Some(_), false) => Self { since: None, millis: self.until(now) },
            (None, false) | (Some(_), true) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_divides_the_cost_of_a_run() {
        assert_eq!((cost(10, 1), cost(10, 3), cost(0, 1_000)), (10_000, 3_333, 1));
        assert_eq!((run_ms_after(None, 8), run_ms_after(Some(8), 0)), (8, 6));
    }

    #[test]
    fn an_idle_group_brings_one_turn_with_it_and_no_more() {
        let queue = FairQueue { virtual_time: 1_000, ..FairQueue::default() };
        assert_eq!(queue.least_charge(None, 300), 700);
        assert_eq!(queue.least_charge(Some(900), 300), 700);
        assert_eq!(queue.least_charge(Some(100), 300), 100, "not behind those that wait");
        assert_eq!(queue.least_charge(Some(5_000), 300), 4_700);
        assert_eq!(queue.least_charge(Some(0), 2_000), 0);
    }

    #[test]
    fn the_virtual_time_follows_the_groups_that_are_served() {
        let mut queue = FairQueue::default();
        queue.grant(500, 100, 0);
        assert_eq!(queue.virtual_time, 600, "one group alone is always served");
        queue.grant(600, 100, 3);
        assert_eq!(queue.virtual_time, 625, "each of four is served a quarter of the time");
        queue.grant(50, 100, 1);
        assert_eq!(queue.virtual_time, 200, "what was charged too much is given back");
        queue.acquire(190, 100);
        assert_eq!(queue.virtual_time, 200, "without others that wait, nothing is shared");
    }

    #[test]
    fn the_runs_of_a_group_that_go_before_another_are_counted() {
        let group = FairGroup { charge: 100, turn: 5, queued: 3 };
        let before = |charge, turn| group.runs_before((charge, turn), 10);
        assert_eq!((before(99, 9), before(100, 4), before(100, 6)), (0, 0, 1));
        assert_eq!((before(101, 4), before(110, 4), before(110, 6), before(500, 4)), (1, 1, 2, 3));
    }

    #[test]
    fn the_time_of_approvals_adds_up() {
        let at = Timestamp::from_millis;
        let time = ApprovalTime::default().after(true, at(10)).after(true, at(20)).after(false, at(25));
        assert_eq!(time, ApprovalTime { since: None, millis: 15 });
        assert_eq!(time.after(false, at(90)).after(true, at(100)).until(at(130)), 45);
    }
}
