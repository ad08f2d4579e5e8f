//! Histories of a lock and of what its fence guards, as clients saw them, and whether one order of events explains
//! them all: each between its call and its answer, and each allowed by the rules at its place.

mod fenced_lock;

use std::time::Duration;

pub use fenced_lock::Act;
use fenced_lock::FencedLock;
use porcupine_rs::{CheckResult, Operation, check_operations_timeout};

/// Something that was done, or refused, somewhere between two moments of one clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub client: u32,
    pub act: Act,
    /// In microseconds.
    pub called: i64,
    pub answered: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains all that was seen.
    Explained,
    /// No order does.
    Refuted,
    /// The search took too long.
    Undecided,
}

/// Whether the history of one lock can be explained. Few clients at once keep the search short.
#[must_use]
pub fn check(history: &[Seen], patience: Duration) -> Verdict {
    let operations: Vec<Operation<FencedLock>> = history
        .iter()
        .map(|seen| Operation {
            client_id: Some(seen.client),
            call_time: seen.called,
            return_time: seen.answered,
            op: seen.act.clone(),
            metadata: None,
        })
        .collect();
    match check_operations_timeout(&operations, patience) {
        CheckResult::Ok => Verdict::Explained,
        CheckResult::Illegal => Verdict::Refuted,
        CheckResult::Unknown => Verdict::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acts one after the other, a millisecond each.
    fn in_turn(acts: &[Act]) -> Vec<Seen> {
        let seen = |(at, act): (i64, &Act)| Seen {
            client: 1,
            act: act.clone(),
            called: at * 1_000,
            answered: at * 1_000 + 500,
        };
        (0..).zip(acts).map(seen).collect()
    }

    fn verdict(acts: &[Act]) -> Verdict {
        check(&in_turn(acts), Duration::from_secs(10))
    }

    fn granted(token: &str, fence: u64) -> Act {
        Act::Granted { token: token.to_owned(), fence }
    }

    fn renewed(token: &str) -> Act {
        Act::Renewed { token: token.to_owned() }
    }

    fn ended(token: &str) -> Act {
        Act::Ended { token: token.to_owned() }
    }

    #[test]
    fn holds_one_after_the_other_are_explained() {
        let acts = [
            granted("a", 1),
            Act::Held,
            renewed("a"),
            ended("a"),
            granted("b", 2),
            Act::Written { fence: 2 },
        ];
        assert_eq!(verdict(&acts), Verdict::Explained);
    }

    #[test]
    fn a_double_grant_is_refuted() {
        assert_eq!(verdict(&[granted("a", 1), granted("b", 2)]), Verdict::Refuted);
        assert_eq!(verdict(&[granted("a", 1), granted("b", 2), renewed("a")]), Verdict::Refuted);
    }

    #[test]
    fn a_fence_that_does_not_grow_is_refuted() {
        assert_eq!(verdict(&[granted("a", 2), ended("a"), granted("b", 2)]), Verdict::Refuted);
        assert_eq!(verdict(&[granted("a", 2), ended("a"), granted("b", 1)]), Verdict::Refuted);
    }

    #[test]
    fn a_stale_write_that_counted_is_refuted_and_one_that_was_refused_is_not() {
        let late = [granted("a", 1), ended("a"), granted("b", 2), Act::Written { fence: 2 }];
        let with = |act: Act| verdict(&[&late[..], &[act]].concat());
        assert_eq!(with(Act::WriteRefused { fence: 1 }), Verdict::Explained);
        assert_eq!(with(Act::Written { fence: 1 }), Verdict::Refuted);
        assert_eq!(with(Act::WriteRefused { fence: 2 }), Verdict::Refuted, "the live holder may write");
    }

    #[test]
    fn a_hold_that_was_refused_must_have_been_lost() {
        assert_eq!(verdict(&[granted("a", 1), Act::Stale { token: "a".to_owned() }]), Verdict::Refuted);
        let lost = [granted("a", 1), ended("a"), Act::Stale { token: "a".to_owned() }];
        assert_eq!(verdict(&lost), Verdict::Explained);
        assert_eq!(verdict(&[granted("a", 1), ended("a"), renewed("a")]), Verdict::Refuted);
    }

    #[test]
    fn a_free_lock_that_was_refused_is_refuted() {
        assert_eq!(verdict(&[granted("a", 1), ended("a"), Act::Held]), Verdict::Refuted);
    }

    #[test]
    fn what_overlaps_may_have_happened_in_either_order() {
        let seen = |act, called, answered| Seen { client: 1, act, called, answered };
        let overlapping = [
            seen(granted("b", 2), 0, 100),
            seen(granted("a", 1), 10, 20),
            seen(ended("a"), 15, 90),
            seen(Act::Held, 5, 30),
        ];
        assert_eq!(check(&overlapping, Duration::from_secs(10)), Verdict::Explained);
    }
}
