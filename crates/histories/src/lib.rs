//! Checks whether the history of a lock, as its clients saw it, is linearizable: one order of its events must exist in
//! which each happens between its call and its answer and is allowed by the rules.

mod fenced_lock;
mod search;

use std::time::Duration;

pub use fenced_lock::LockAction;
use search::Search;

/// An action that happened between two times of one clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEvent {
    pub client: u32,
    pub action: LockAction,
    /// In microseconds.
    pub called: i64,
    pub answered: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryVerdict {
    Linearizable,
    /// No order of the events follows the rules.
    Impossible,
    /// The search took too long.
    Undecided,
}

/// Checks the history of one lock. Few clients at once keep the search short.
pub fn check(history: &[HistoryEvent], search_limit: Duration) -> HistoryVerdict {
    Search::new(history).run(search_limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of these actions, each after the one before it.
    fn in_turn(actions: &[LockAction]) -> Vec<HistoryEvent> {
        let event = |(at, action): (i64, &LockAction)| HistoryEvent {
            client: 1,
            action: action.clone(),
            called: at * 1_000,
            answered: at * 1_000 + 500,
        };
        (0..).zip(actions).map(event).collect()
    }

    fn verdict(actions: &[LockAction]) -> HistoryVerdict {
        check(&in_turn(actions), Duration::from_mins(1))
    }

    fn granted(token: &str, fence: u64) -> LockAction {
        LockAction::Granted { token: token.to_owned(), fence }
    }

    fn renewed(token: &str) -> LockAction {
        LockAction::Renewed { token: token.to_owned() }
    }

    fn ended(token: &str) -> LockAction {
        LockAction::Ended { token: token.to_owned() }
    }

    #[test]
    fn leases_one_after_the_other_are_linearizable() {
        let actions = [
            granted("a", 1),
            LockAction::Held,
            renewed("a"),
            ended("a"),
            granted("b", 2),
            LockAction::Written { fence: 2 },
        ];
        assert_eq!(verdict(&actions), HistoryVerdict::Linearizable);
    }

    #[test]
    fn a_double_grant_is_impossible() {
        assert_eq!(verdict(&[granted("a", 1), granted("b", 2)]), HistoryVerdict::Impossible);
        assert_eq!(verdict(&[granted("a", 1), granted("b", 2), renewed("a")]), HistoryVerdict::Impossible);
    }

    #[test]
    fn a_fence_that_does_not_grow_is_impossible() {
        assert_eq!(verdict(&[granted("a", 2), ended("a"), granted("b", 2)]), HistoryVerdict::Impossible);
        assert_eq!(verdict(&[granted("a", 2), ended("a"), granted("b", 1)]), HistoryVerdict::Impossible);
    }

    #[test]
    fn an_accepted_stale_write_is_impossible() {
        let late = [granted("a", 1), ended("a"), granted("b", 2), LockAction::Written { fence: 2 }];
        let with = |action: LockAction| verdict(&[&late[..], &[action]].concat());
        assert_eq!(with(LockAction::WriteRefused { fence: 1 }), HistoryVerdict::Linearizable);
        assert_eq!(with(LockAction::Written { fence: 1 }), HistoryVerdict::Impossible);
        assert_eq!(
            with(LockAction::WriteRefused { fence: 2 }),
            HistoryVerdict::Impossible,
            "the live holder may write"
        );
    }

    #[test]
    fn a_stale_token_belongs_to_a_lease_that_has_ended() {
        assert_eq!(
            verdict(&[granted("a", 1), LockAction::Stale { token: "a".to_owned() }]),
            HistoryVerdict::Impossible
        );
        let lost = [granted("a", 1), ended("a"), LockAction::Stale { token: "a".to_owned() }];
        assert_eq!(verdict(&lost), HistoryVerdict::Linearizable);
        assert_eq!(verdict(&[granted("a", 1), ended("a"), renewed("a")]), HistoryVerdict::Impossible);
    }

    #[test]
    fn a_free_lock_is_never_refused() {
        assert_eq!(verdict(&[granted("a", 1), ended("a"), LockAction::Held]), HistoryVerdict::Impossible);
    }

    #[test]
    fn overlapping_events_may_happen_in_either_order() {
        let event = |action, called, answered| HistoryEvent { client: 1, action, called, answered };
        let overlapping = [
            event(granted("b", 2), 0, 100),
            event(granted("a", 1), 10, 20),
            event(ended("a"), 15, 90),
            event(LockAction::Held, 5, 30),
        ];
        assert_eq!(check(&overlapping, Duration::from_mins(1)), HistoryVerdict::Linearizable);
    }
}
