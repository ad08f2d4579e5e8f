//! A group of a limit: how many of its slots are taken, and whether one is free.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::QueueRule;
use super::fair::FairQueue;
use crate::tenant::SlotFlow;
use crate::{RunId, Timestamp};

/// What a limit demands of each of its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRule {
    /// None: any number of runs.
    pub runs_max: Option<u32>,
    pub rate: Option<Rate>,
    pub queue: QueueRule,
    /// Of a limit that debounces.
    pub debounce: Option<DebounceRule>,
    /// Nothing starts while it is paused.
    pub is_paused: bool,
}

/// How long the run of a group waits for newer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebounceRule {
    /// It starts when none has come for this long.
    pub quiet: Duration,
    /// At most this long after the first.
    pub delay_max: Duration,
}

impl DebounceRule {
    /// How long the run waits after one more start, of which the first came at `first_at`.
    pub fn after_start(&self, first_at: Timestamp, now: Timestamp, starts: u32) -> Quiet {
        let latest = (first_at + self.delay_max).max(now);
        Quiet { until: (now + self.quiet).min(latest), latest, starts }
    }
}

/// How long a run waits for newer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// When it starts unless a newer one comes before.
    pub until: Timestamp,
    /// When it starts whatever comes.
    pub latest: Timestamp,
    /// Starts that it stands for.
    pub starts: u32,
}

/// Starts over time, by the generic cell rate algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Microseconds from one start to the next, at an even pace.
    pub interval: u64,
    /// Microseconds by which starts may be ahead of that pace.
    pub ahead: u64,
}

/// The state of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Runs that hold a slot.
    pub live: u32,
    /// Runs that wait in its queue.
    pub queued: u32,
    /// When, in microseconds, all starts so far have passed at an even pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced_until: Option<u64>,
    /// The run that waits for the end of one that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<RunId>,
    #[serde(default)]
    pub slot_flow: SlotFlow,
    /// If its queue is fair.
    #[serde(default, skip_serializing_if = "FairQueue::is_unused")]
    pub fair: FairQueue,
}

/// Why a run cannot start in a group now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fullness {
    /// All slots are taken.
    Slots,
    /// The next start may come then.
    Rate {
        next_at: Timestamp,
    },
    Paused,
    /// Others wait, and go first.
    Others,
    /// The run waits until no newer start has come for a while.
    Quiet(Quiet),
}

impl Rate {
    pub fn new(starts: u32, period: Duration, burst: Option<u32>) -> Self {
        let period = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        let interval = period.div_ceil(starts.max(1).into()).max(1);
        Self { interval, ahead: interval.saturating_mul(u64::from(burst.unwrap_or(starts).max(1) - 1)) }
    }
}

fn micros(time: Timestamp) -> u64 {
    time.as_millis().saturating_mul(1_000)
}

impl Group {
    /// Why no run can start now. None: one can, unless others wait.
    pub fn fullness(&self, rule: &GroupRule, now: Timestamp) -> Option<Fullness> {
        if rule.is_paused {
            return Some(Fullness::Paused);
        }
        if rule.runs_max.is_some_and(|most| self.live >= most) {
            return Some(Fullness::Slots);
        }
        let rate = rule.rate?;
        let earliest = self.paced_until?.checked_sub(rate.ahead)?;
        let next_at = Timestamp::from_millis(earliest.div_ceil(1_000));
        (now < next_at).then_some(Fullness::Rate { next_at })
    }

    /// Why a newcomer cannot start now: those that wait are not overtaken.
    pub fn fullness_for_newcomer(&self, rule: &GroupRule, now: Timestamp) -> Option<Fullness> {
        self.fullness(rule, now).or_else(|| (self.queued > 0).then_some(Fullness::Others))
    }

    /// One more run has a slot.
    pub fn acquire(&mut self, rule: &GroupRule, now: Timestamp) {
        if self.live == 0 {
            self.slot_flow = self.slot_flow.resumed(now);
        }
        self.live += 1;
        if let Some(rate) = rule.rate {
            self.paced_until =
                Some(self.paced_until.unwrap_or(0).max(micros(now)).saturating_add(rate.interval));
        }
    }

    /// A run has released its slot.
    pub fn release(&mut self, now: Timestamp) {
        self.live = self.live.saturating_sub(1);
        self.slot_flow = self.slot_flow.freed(now);
    }

    /// When its rate forgets the last start, if nothing else needs to be known of it.
    pub fn forgotten_at(&self) -> Option<Timestamp> {
        let until = self.paced_until.filter(|_| self.live == 0 && self.queued == 0)?;
        Some(Timestamp::from_millis(until.div_ceil(1_000)))
    }

    /// Whether nothing needs to be known of it any more.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.live == 0 && self.queued == 0 && self.paced_until.is_none_or(|until| until <= micros(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::document::LimitDocument;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    fn rule(document: &str) -> GroupRule {
        serde_json::from_str::<LimitDocument>(document).unwrap().group_rule(false)
    }

    #[test]
    fn a_group_is_full_when_all_of_its_slots_are_taken() {
        let rule = rule(r#"{"max_runs": 2}"#);
        let mut group = Group::default();
        for _ in 0..2 {
            assert_eq!(group.fullness_for_newcomer(&rule, at(0)), None);
            group.acquire(&rule, at(0));
        }
        assert_eq!(group.fullness_for_newcomer(&rule, at(0)), Some(Fullness::Slots));
        group.release(at(5));
        assert_eq!(group.fullness_for_newcomer(&rule, at(5)), None);
        group.queued = 1;
        assert_eq!(group.fullness_for_newcomer(&rule, at(5)), Some(Fullness::Others));
        assert_eq!(group.fullness(&rule, at(5)), None, "it is the turn of those that wait");
    }

    #[test]
    fn nothing_starts_in_a_paused_group() {
        let rule = GroupRule { is_paused: true, ..rule(r#"{"max_runs": 2}"#) };
        assert_eq!(Group::default().fullness(&rule, at(0)), Some(Fullness::Paused));
    }

    #[test]
    fn a_newer_start_moves_the_end_of_the_quiet_period_up_to_the_longest_delay() {
        let rule = rule(r#"{"on_full": "debounce", "quiet_sec": 5, "max_delay_sec": 8}"#).debounce.unwrap();
        let after = |now, starts| rule.after_start(at(0), at(now), starts);
        assert_eq!(after(0, 1), Quiet { until: at(5_000), latest: at(8_000), starts: 1 });
        assert_eq!(after(2_000, 2), Quiet { until: at(7_000), latest: at(8_000), starts: 2 });
        assert_eq!(after(4_000, 3), Quiet { until: at(8_000), latest: at(8_000), starts: 3 });
        assert_eq!(after(9_000, 4).until, at(9_000), "of a limit that was shortened");
    }

    #[test]
    fn a_rate_lets_a_burst_pass_and_then_an_even_pace() {
        let rule = rule(r#"{"rate": {"starts": 4, "period_sec": 2, "burst": 3}}"#);
        let mut group = Group::default();
        for _ in 0..3 {
            assert_eq!(group.fullness(&rule, at(0)), None);
            group.acquire(&rule, at(0));
        }
        assert_eq!(group.fullness(&rule, at(0)), Some(Fullness::Rate { next_at: at(500) }));
        assert_eq!(group.fullness(&rule, at(499)), Some(Fullness::Rate { next_at: at(500) }));
        assert_eq!(group.fullness(&rule, at(500)), None);
        group.acquire(&rule, at(500));
        assert_eq!(group.fullness(&rule, at(999)), Some(Fullness::Rate { next_at: at(1_000) }));
        assert!(!Group { live: 0, ..group }.is_idle(at(1_999)));
        assert!(Group { live: 0, ..group }.is_idle(at(2_000)));
        assert_eq!(group.fullness(&rule, at(60_000)), None, "a quiet time gains no more than the burst");
        for _ in 0..3 {
            group.acquire(&rule, at(60_000));
        }
        assert_eq!(group.fullness(&rule, at(60_000)), Some(Fullness::Rate { next_at: at(60_500) }));
    }

    #[test]
    fn a_rate_without_a_burst_lets_all_starts_of_a_period_pass_at_once() {
        let rule = rule(r#"{"rate": {"starts": 3, "period_sec": 60}}"#);
        let mut group = Group::default();
        for _ in 0..3 {
            assert_eq!(group.fullness(&rule, at(0)), None);
            group.acquire(&rule, at(0));
        }
        assert_eq!(group.fullness(&rule, at(0)), Some(Fullness::Rate { next_at: at(20_000) }));
    }
}
