//! What happens to a start: the one decision over all groups that it counts in.

use super::document::OnFull;
use super::group::{DebounceRule, Fullness, Group, GroupRule};
use super::place::Blocked;
use super::rule::SlotClaim;
use crate::Timestamp;

/// A group that a start counts in, with what its limit demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuledGroup {
    pub rule: GroupRule,
    pub group: Group,
    /// Slots of it that the run holds which the start would replace.
    pub freed: u32,
}

impl RuledGroup {
    /// The group as an obstacle for a start.
    pub fn blocked(&self, claim: &SlotClaim, fullness: Fullness) -> Blocked {
        let SlotClaim { limit, group } = claim.clone();
        let Group { live, queued, slot_flow, .. } = self.group;
        Blocked { limit, group, fullness, live, runs_max: self.rule.runs_max, queued, slot_flow }
    }

    fn fullness(&self, now: Timestamp) -> Option<Fullness> {
        let live = self.group.live.saturating_sub(self.freed);
        Group { live, ..self.group }.fullness_for_newcomer(&self.rule, now)
    }
}

const REPLACES: [OnFull; 2] = [OnFull::ReplaceRunning, OnFull::ReplaceQueued];

/// What happens to a start. `at` is the position of the group that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    Start,
    /// The run that exists already answers, if there is one.
    Join {
        at: usize,
        fullness: Fullness,
    },
    Reject {
        at: usize,
        fullness: Fullness,
    },
    Queue {
        at: usize,
        fullness: Fullness,
    },
    QueueFull {
        at: usize,
        fullness: Fullness,
    },
    /// It takes the place of the youngest run that waits in the group.
    ReplaceQueued {
        at: usize,
        fullness: Fullness,
    },
    /// It waits first in the group's queue, and the oldest live run of the group is cancelled.
    ReplaceRunning {
        at: usize,
        fullness: Fullness,
    },
    /// The run of the group that waits for newer starts takes it in, if there is one; else it becomes that run.
    Debounce {
        at: usize,
        rule: DebounceRule,
    },
}

/// Decides about a start. The groups stand in order, the narrowest first. Without `can_join`, there is no run that could
/// answer for it: a limit that would join rejects, and a limit that debounces has a new run wait.
pub fn judge(groups: &[RuledGroup], can_join: bool, now: Timestamp) -> Arrival {
    let full: Vec<(usize, OnFull, Fullness)> = groups
        .iter()
        .enumerate()
        .filter_map(|(at, ruled)| {
            let fullness = ruled.group.fullness_for_newcomer(&ruled.rule, now)?;
            Some((at, ruled.rule.queue.on_full, fullness))
        })
        .collect();
    let debounces = groups.iter().enumerate().find_map(|(at, ruled)| Some((at, ruled.rule.debounce?)));
    let is_narrower = |at: usize| debounces.is_none_or(|(other, _)| at < other);
    // Of two limits with a policy of their own, the narrower decides.
    let first = |wanted: &[OnFull]| {
        let mut found = full.iter().copied().filter(|(_, on_full, _)| wanted.contains(on_full));
        found.next().filter(|(at, ..)| is_narrower(*at))
    };
    if can_join {
        if let Some((at, _, fullness)) = first(&[OnFull::Join]) {
            return Arrival::Join { at, fullness };
        }
        if let Some((at, rule)) = debounces.filter(|_| first(&REPLACES).is_none()) {
            return Arrival::Debounce { at, rule };
        }
    }
    // What a replacement frees counts as free, but for the group whose run is replaced.
    let replaces = first(&REPLACES);
    let stays_full = |(at, ..): &&(usize, OnFull, Fullness)| groups[*at].fullness(now).is_some();
    let refuses = |(at, on_full, _): &&(usize, OnFull, Fullness)| match on_full {
        OnFull::Reject => true,
        // Where a narrower limit debounces, it queues.
        OnFull::Join => is_narrower(*at),
        OnFull::Queue | OnFull::ReplaceRunning | OnFull::ReplaceQueued | OnFull::Debounce => false,
    };
    if let Some(&(at, _, fullness)) = full.iter().filter(stays_full).find(refuses) {
        return Arrival::Reject { at, fullness };
    }
    if let Some((at, rule)) = debounces.filter(|_| replaces.is_none()) {
        // In that queue it would stand if it had waited already.
        let blocking = full.first().filter(|(at, ..)| is_queue_full(&groups[*at]));
        return match blocking {
            Some(&(at, _, fullness)) => Arrival::QueueFull { at, fullness },
            None => Arrival::Debounce { at, rule },
        };
    }
    match replaces {
        Some((at, OnFull::ReplaceQueued, fullness)) if is_queue_full(&groups[at]) => {
            Arrival::ReplaceQueued { at, fullness }
        }
        Some((at, OnFull::ReplaceRunning, fullness)) => {
            // It could not start even if the other run had ended.
            let mut others = full.iter().filter(stays_full).filter(|(other, ..)| *other != at);
            match others.next() {
                Some(&(at, _, fullness)) => wait(groups, at, fullness),
                None if groups[at].freed > 0 => Arrival::ReplaceRunning { at, fullness },
                None => wait(groups, at, fullness),
            }
        }
        Some((at, _, fullness)) => Arrival::Queue { at, fullness },
        None => full.first().map_or(Arrival::Start, |&(at, _, fullness)| wait(groups, at, fullness)),
    }
}

/// Decides about a child, by the groups that it counts in and no run above it does. It joins nothing and replaces nothing:
/// it waits where other starts would.
pub fn judge_child(groups: &[RuledGroup], now: Timestamp) -> Arrival {
    let full = groups.iter().enumerate().filter_map(|(at, RuledGroup { rule, group, .. })| {
        let fullness = group.fullness_for_newcomer(rule, now)?;
        Some((at, rule.queue.on_full == OnFull::Reject, fullness))
    });
    let full: Vec<_> = full.collect();
    match (full.iter().find(|(_, rejects, _)| *rejects), full.first()) {
        (Some(&(at, _, fullness)), _) => Arrival::Reject { at, fullness },
        (None, Some(&(at, _, fullness))) => wait(groups, at, fullness),
        (None, None) => Arrival::Start,
    }
}

/// The group whose oldest live run a start would replace: that of the narrowest full limit that replaces, if that one
/// replaces live runs and has no slot left.
pub fn replaces_in(groups: &[RuledGroup], now: Timestamp) -> Option<usize> {
    let at = groups.iter().position(|RuledGroup { rule, group, .. }| {
        let replaces =
            REPLACES.contains(&rule.queue.on_full) && group.fullness_for_newcomer(rule, now).is_some();
        replaces || rule.debounce.is_some()
    })?;
    let RuledGroup { rule, group, .. } = groups[at];
    let is_short_of_slots = rule.runs_max.is_some_and(|most| most > 0 && group.live >= most);
    (rule.queue.on_full == OnFull::ReplaceRunning && !rule.is_paused && is_short_of_slots).then_some(at)
}

fn wait(groups: &[RuledGroup], at: usize, fullness: Fullness) -> Arrival {
    if is_queue_full(&groups[at]) {
        Arrival::QueueFull { at, fullness }
    } else {
        Arrival::Queue { at, fullness }
    }
}

fn is_queue_full(RuledGroup { rule, group, .. }: &RuledGroup) -> bool {
    group.queued >= rule.queue.queued_max
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::document::LimitDocument;

    const NOW: Timestamp = Timestamp::ZERO;

    fn ruled(document: &str, live: u32, queued: u32) -> RuledGroup {
        let rule = serde_json::from_str::<LimitDocument>(document).unwrap().group_rule(false);
        RuledGroup { rule, group: Group { live, queued, ..Group::default() }, freed: 0 }
    }

    fn one(on_full: &str, live: u32, queued: u32) -> RuledGroup {
        ruled(&format!(r#"{{"max_runs": 1, "on_full": "{on_full}", "queue": {{"max": 2}}}}"#), live, queued)
    }

    fn at(arrival: Arrival) -> (&'static str, usize) {
        match arrival {
            Arrival::Start => ("start", 0),
            Arrival::Join { at, .. } => ("join", at),
            Arrival::Reject { at, .. } => ("reject", at),
            Arrival::Queue { at, .. } => ("queue", at),
            Arrival::QueueFull { at, .. } => ("queue_full", at),
            Arrival::ReplaceQueued { at, .. } => ("replace_queued", at),
            Arrival::ReplaceRunning { at, .. } => ("replace_running", at),
            Arrival::Debounce { at, .. } => ("debounce", at),
        }
    }

    #[test]
    fn any_full_limit_that_rejects_wins_over_those_that_queue() {
        let groups = [one("queue", 1, 0), one("reject", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("reject", 1));
        let groups = [one("queue", 1, 0), one("reject", 0, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("queue", 0));
        assert_eq!(judge(&[one("queue", 0, 0), one("reject", 0, 0)], true, NOW), Arrival::Start);
        assert_eq!(judge(&[], true, NOW), Arrival::Start);
    }

    #[test]
    fn a_run_waits_for_the_narrowest_full_limit_and_its_queue_is_bounded() {
        let groups = [one("queue", 0, 0), one("queue", 1, 1), one("queue", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("queue", 1));
        let groups = [one("queue", 1, 2), one("queue", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("queue_full", 0));
    }

    fn debounces(live: u32, queued: u32) -> RuledGroup {
        let document = r#"{"max_runs": 1, "on_full": "debounce", "quiet_sec": 5, "queue": {"max": 2}}"#;
        ruled(document, live, queued)
    }

    #[test]
    fn a_limit_that_debounces_takes_every_start_full_or_not() {
        for group in [debounces(0, 0), debounces(1, 0), debounces(1, 1)] {
            assert_eq!(at(judge(&[group], true, NOW)), ("debounce", 0));
            assert_eq!(at(judge(&[group], false, NOW)), ("debounce", 0));
        }
        assert_eq!(at(judge(&[debounces(1, 2)], true, NOW)), ("debounce", 0), "a run may wait for it");
        assert_eq!(at(judge(&[debounces(1, 2)], false, NOW)), ("queue_full", 0));
        let groups = [one("reject", 1, 0), debounces(0, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("debounce", 1), "a run that waits takes it in");
        assert_eq!(at(judge(&groups, false, NOW)), ("reject", 0));
    }

    #[test]
    fn of_two_policies_the_narrower_decides_where_one_debounces() {
        let groups = [one("join", 1, 0), debounces(0, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("join", 0));
        assert_eq!(at(judge(&groups, false, NOW)), ("reject", 0));
        assert_eq!(
            at(judge(&[one("join", 0, 0), debounces(0, 0)], true, NOW)),
            ("debounce", 1),
            "it has room"
        );
        let groups = [one("replace_queued", 1, 0), debounces(0, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("queue", 0));
        let groups = [debounces(0, 0), one("join", 1, 0)];
        assert_eq!(at(judge(&groups, false, NOW)), ("debounce", 0));
        let groups = [debounces(0, 0), one("replace_running", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("debounce", 0));
        assert_eq!(replaces_in(&groups, NOW), None, "no run is replaced by one that only waits");
    }

    #[test]
    fn those_that_wait_are_not_overtaken() {
        assert_eq!(at(judge(&[one("queue", 0, 1)], true, NOW)), ("queue", 0));
        assert_eq!(at(judge(&[one("reject", 0, 1)], true, NOW)), ("reject", 0));
    }

    #[test]
    fn a_join_is_looked_for_before_anything_else_and_rejects_without_a_run() {
        let groups = [one("reject", 1, 0), one("join", 1, 0)];
        let groups = groups.map(|mut ruled| {
            if ruled.rule.queue.on_full == OnFull::Join {
                ruled.rule.queue.queued_max = 0;
            }
            ruled
        });
        assert_eq!(at(judge(&groups, true, NOW)), ("join", 1));
        assert_eq!(at(judge(&groups[1..], false, NOW)), ("reject", 0));
        assert_eq!(judge(&[one("join", 0, 0)], true, NOW), Arrival::Start);
    }

    #[test]
    fn a_newcomer_takes_a_place_in_the_queue_only_when_there_is_no_other() {
        assert_eq!(at(judge(&[one("replace_queued", 1, 1)], true, NOW)), ("queue", 0));
        assert_eq!(at(judge(&[one("replace_queued", 1, 2)], true, NOW)), ("replace_queued", 0));
        let groups = [one("queue", 1, 2), one("replace_queued", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("queue", 1), "the one with a policy of its own decides");
    }

    #[test]
    fn the_narrowest_full_limit_that_replaces_says_whose_run() {
        let groups = [one("replace_running", 0, 0), one("queue", 1, 0), one("replace_running", 1, 0)];
        assert_eq!(replaces_in(&groups, NOW), Some(2), "the first has room");
        assert_eq!(replaces_in(&[one("replace_queued", 1, 0), one("replace_running", 1, 0)], NOW), None);
        assert_eq!(
            replaces_in(&[one("replace_running", 0, 1)], NOW),
            None,
            "others wait, and a slot is free"
        );
        let mut paused = one("replace_running", 1, 0);
        paused.rule.is_paused = true;
        assert_eq!(replaces_in(&[paused], NOW), None);
    }

    #[test]
    fn a_child_is_rejected_or_waits() {
        assert_eq!(judge_child(&[one("join", 0, 0)], NOW), Arrival::Start);
        assert_eq!(at(judge_child(&[one("join", 1, 0), one("replace_running", 1, 0)], NOW)), ("queue", 0));
        assert_eq!(at(judge_child(&[one("queue", 1, 0), one("reject", 1, 0)], NOW)), ("reject", 1));
        assert_eq!(at(judge_child(&[one("queue", 1, 2)], NOW)), ("queue_full", 0));
    }

    #[test]
    fn a_run_is_replaced_only_if_the_newcomer_can_start_then() {
        let victim = |ruled: RuledGroup| RuledGroup { freed: 1, ..ruled };
        let groups = [victim(one("replace_running", 1, 0)), victim(one("reject", 1, 0))];
        assert_eq!(at(judge(&groups, true, NOW)), ("replace_running", 0));
        let groups = [victim(one("replace_running", 1, 0)), one("reject", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("reject", 1));
        let groups = [victim(one("replace_running", 1, 0)), one("queue", 1, 0)];
        assert_eq!(at(judge(&groups, true, NOW)), ("queue", 1));
        assert_eq!(at(judge(&[one("replace_running", 1, 0)], true, NOW)), ("queue", 0), "no run to replace");
    }
}
