//! The document of tunings and rollouts. Both are in one document so that a promotion is one write.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Guards, Measured, Rollout, RolloutEvent, RolloutEventKind, RolloutState, Scope, Share, Tuning, Version,
    Versions,
};
use crate::retry::{InvalidPolicy, RetryPolicy};
use crate::{RolloutId, Timestamp};

/// Ended rollouts that are kept.
const ENDED_MAX: usize = 50;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Book {
    admission: Versions,
    lock_busy: Versions,
    /// Oldest first; at most one is running.
    rollouts: Vec<Rollout>,
}

/// Who makes a change, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub by: String,
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// A request to start a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRollout {
    pub id: RolloutId,
    pub candidate: RetryPolicy,
    /// The configured tuning of the calling process, used as control if the book has none.
    pub configured: Tuning,
    pub share: Share,
    pub duration: Duration,
    pub guards: Guards,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    #[error("{0}")]
    Conflict(String),
    #[error("rollout {0} does not exist")]
    UnknownRollout(RolloutId),
    #[error(transparent)]
    Invalid(#[from] InvalidPolicy),
}

impl Book {
    pub fn versions(&self, scope: Scope) -> &Versions {
        match scope {
            Scope::Admission => &self.admission,
            Scope::LockBusy => &self.lock_busy,
        }
    }

    fn versions_mut(&mut self, scope: Scope) -> &mut Versions {
        match scope {
            Scope::Admission => &mut self.admission,
            Scope::LockBusy => &mut self.lock_busy,
        }
    }

    pub fn rollouts_newest_first(&self) -> impl Iterator<Item = &Rollout> {
        self.rollouts.iter().rev()
    }

    pub fn running(&self) -> Option<&Rollout> {
        self.rollouts.iter().rev().find(|rollout| rollout.is_running())
    }

    pub fn rollout(&self, id: &RolloutId) -> Result<&Rollout, BookError> {
        let found = self.rollouts.iter().find(|rollout| rollout.id == *id);
        found.ok_or_else(|| BookError::UnknownRollout(id.clone()))
    }

    /// Sets a tuning. If `expected` is given, it must be the current version.
    pub fn set(
        &mut self,
        scope: Scope,
        expected: Option<u64>,
        tuning: Tuning,
        signed: Signed,
    ) -> Result<Version, BookError> {
        self.may_change(scope, expected)?;
        Ok(self.versions_mut(scope).set(tuning.checked()?, signed))
    }

    /// Restores the previous tuning.
    pub fn roll_back(
        &mut self,
        scope: Scope,
        expected: Option<u64>,
        signed: Signed,
    ) -> Result<Version, BookError> {
        self.may_change(scope, expected)?;
        self.versions_mut(scope).roll_back(scope, signed)
    }

    fn may_change(&self, scope: Scope, expected: Option<u64>) -> Result<(), BookError> {
        let (name, current) = (scope.name(), self.versions(scope).number());
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            return Err(BookError::Conflict(format!("{name} is at version {current}, not {expected}")));
        }
        match self.running() {
            // The control must not change while a rollout compares against it.
            Some(rollout) if scope == Scope::LockBusy => Err(BookError::Conflict(format!(
                "rollout {} compares {name} until {}; promote or abort it first",
                rollout.id, rollout.ends_at
            ))),
            Some(_) | None => Ok(()),
        }
    }

    pub fn start(&mut self, new: NewRollout, signed: Signed) -> Result<Rollout, BookError> {
        if let Some(running) = self.running() {
            return Err(BookError::Conflict(format!(
                "rollout {} is running until {}; promote or abort it first",
                running.id, running.ends_at
            )));
        }
        let NewRollout { id, candidate, configured, share, duration, guards } = new;
        let Signed { by, at, reason } = signed;
        let control = self.lock_busy.tuning().unwrap_or(configured);
        let rollout = Rollout {
            id,
            candidate: Tuning { policy: candidate, ..control },
            control,
            control_version: self.lock_busy.number(),
            share,
            guards,
            started_at: at,
            ends_at: at + duration,
            state: RolloutState::Running,
            ended_at: None,
            measured: None,
            summaries: None,
            history: vec![RolloutEvent { kind: RolloutEventKind::Started, at, by, why: reason }],
        };
        let rollout = rollout.checked()?;
        self.rollouts.push(rollout.clone());
        self.forget_rollouts_beyond(ENDED_MAX + 1);
        Ok(rollout)
    }

    /// Ends a running rollout. Promotion sets its candidate as the current tuning.
    pub fn end(
        &mut self,
        id: &RolloutId,
        kind: RolloutEventKind,
        measured: Measured,
        signed: Signed,
    ) -> Result<Rollout, BookError> {
        self.rollout(id)?;
        let found = self.rollouts.iter_mut().find(|rollout| rollout.id == *id && rollout.is_running());
        let Some(rollout) = found else {
            return Err(BookError::Conflict(format!("rollout {id} has already ended")));
        };
        let Signed { by, at, reason } = signed.clone();
        rollout.end(RolloutEvent { kind, at, by, why: reason }, measured);
        let ended = rollout.clone();
        if kind == RolloutEventKind::Promoted {
            let reason = Some(format!("promoted by rollout {id}"));
            self.lock_busy.set(ended.candidate, Signed { reason, ..signed });
        }
        Ok(ended)
    }

    /// Deletes the older half of the entries. False if nothing is left to delete.
    pub fn forget_some(&mut self) -> bool {
        let before = (self.rollouts.len(), self.admission.len(), self.lock_busy.len());
        self.forget_rollouts_beyond((before.0 / 2).max(1));
        self.admission.forget_beyond((before.1 / 2).max(1));
        self.lock_busy.forget_beyond((before.2 / 2).max(1));
        before != (self.rollouts.len(), self.admission.len(), self.lock_busy.len())
    }

    fn forget_rollouts_beyond(&mut self, kept: usize) {
        let forgotten = self.rollouts.len().saturating_sub(kept);
        self.rollouts.drain(..forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::super::versions::KEPT_MAX;
    use super::*;
    use crate::RunId;
    use crate::contention::Arm;

    fn signed(by: &str) -> Signed {
        Signed { by: by.to_owned(), at: Timestamp::from_millis(1_000), reason: None }
    }

    fn fixed(delay_ms: u64) -> Tuning {
        Tuning { policy: RetryPolicy::Fixed { delay_ms }, ..Scope::LockBusy.tuning() }
    }

    fn set(book: &mut Book, delay_ms: u64) -> Version {
        book.set(Scope::LockBusy, None, fixed(delay_ms), signed("ada")).unwrap()
    }

    fn back(book: &mut Book) -> Result<Option<Tuning>, BookError> {
        book.roll_back(Scope::LockBusy, None, signed("ada")).map(|version| version.tuning)
    }

    fn new(id: &str) -> NewRollout {
        NewRollout {
            id: id.parse().unwrap(),
            candidate: RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 },
            configured: Scope::LockBusy.tuning(),
            share: Share::of_percent(10.0).unwrap(),
            duration: Duration::from_hours(1),
            guards: Guards::default(),
        }
    }

    #[test]
    fn repeated_rollbacks_go_back_one_version_each() {
        let mut book = Book::default();
        assert!(matches!(back(&mut book), Err(BookError::Conflict(_))), "it was never changed");
        set(&mut book, 1);
        set(&mut book, 2);
        assert_eq!(back(&mut book), Ok(Some(fixed(1))));
        assert_eq!(back(&mut book), Ok(None), "as configured");
        assert!(matches!(back(&mut book), Err(BookError::Conflict(_))));
        assert_eq!(book.versions(Scope::LockBusy).number(), 4);
        set(&mut book, 3);
        assert_eq!(back(&mut book), Ok(None), "the version before the last change");
        assert_eq!(book.versions(Scope::Admission).number(), 0, "the other scope is unchanged");
    }

    #[test]
    fn only_the_last_hundred_versions_can_be_restored() {
        let mut book = Book::default();
        (1..=150).for_each(|delay| drop(set(&mut book, delay)));
        assert_eq!(book.versions(Scope::LockBusy).newest_first().count(), KEPT_MAX);
        let mut restored = 0;
        while restored < 200 && back(&mut book).is_ok() {
            restored += 1;
        }
        assert!((49..100).contains(&restored), "each rollback is a version, too: {restored}");
    }

    #[test]
    fn a_change_based_on_an_old_version_is_rejected() {
        let mut book = Book::default();
        let version = set(&mut book, 1);
        let stale = book.set(Scope::LockBusy, Some(0), fixed(2), signed("bob")).unwrap_err();
        assert_eq!(stale.to_string(), "lock_busy is at version 1, not 0");
        assert!(book.set(Scope::LockBusy, Some(version.number), fixed(2), signed("bob")).is_ok());
    }

    #[test]
    fn one_rollout_runs_at_a_time_and_its_control_cannot_change() {
        let mut book = Book::default();
        set(&mut book, 700);
        let rollout = book.start(new("one"), signed("ada")).unwrap();
        assert_eq!((rollout.control, rollout.control_version), (fixed(700), 1));
        assert_eq!(rollout.candidate.max_wait_ms, fixed(700).max_wait_ms);
        assert!(matches!(book.start(new("two"), signed("ada")), Err(BookError::Conflict(_))));
        assert!(matches!(back(&mut book), Err(BookError::Conflict(_))));
        book.set(Scope::Admission, None, fixed(5), signed("ada")).expect("the other scope is free");

        let ended = book
            .end(&rollout.id, RolloutEventKind::Promoted, Measured::default(), signed("interlock"))
            .unwrap();
        assert_eq!(
            (ended.state, book.versions(Scope::LockBusy).tuning()),
            (RolloutState::Promoted, Some(rollout.candidate))
        );
        let again = book.end(&rollout.id, RolloutEventKind::Aborted, Measured::default(), signed("ada"));
        assert!(matches!(again, Err(BookError::Conflict(_))));
        assert_eq!(back(&mut book), Ok(Some(fixed(700))), "a promotion can be rolled back");
    }

    #[test]
    fn a_rolled_back_or_aborted_rollout_keeps_the_control() {
        for kind in [RolloutEventKind::RolledBack, RolloutEventKind::Aborted] {
            let mut book = Book::default();
            let rollout = book.start(new("one"), signed("ada")).unwrap();
            book.end(&rollout.id, kind, Measured::default(), signed("ada")).unwrap();
            assert_eq!(book.versions(Scope::LockBusy).number(), 0);
            assert_eq!(book.running(), None);
            assert_eq!(book.rollout(&rollout.id).unwrap().history.len(), 2);
        }
    }

    #[test]
    fn an_invalid_rollout_is_rejected() {
        let is_rejected = |change: &dyn Fn(&mut NewRollout)| {
            let mut request = new("one");
            change(&mut request);
            matches!(Book::default().start(request, signed("ada")), Err(BookError::Invalid(_)))
        };
        assert!(is_rejected(&|new| new.duration = Duration::from_millis(10)));
        assert!(is_rejected(&|new| new.duration = Duration::from_hours(24 * 91)));
        assert!(is_rejected(&|new| new.candidate = RetryPolicy::Fixed { delay_ms: 0 }));
        assert!(
            is_rejected(&|new| new.candidate = RetryPolicy::Fixed { delay_ms: 500 }),
            "already the current policy"
        );
        assert!(is_rejected(&|new| new.guards.ratio = f64::NAN));
        assert!(is_rejected(&|new| new.guards.min_samples = 0));
        assert!(Share::of_percent(0.0).is_err() && Share::of_percent(100.0).is_err());
        assert!(Share::of_percent(f64::NAN).is_err());
        assert!(
            Share::of_percent(10.01).is_ok() && Share::of_percent(10.004).is_err(),
            "not rounded silently"
        );
    }

    #[test]
    fn runs_are_split_by_the_share_and_each_stays_in_its_arm() {
        let rollout = Book::default().start(new("one"), signed("ada")).unwrap();
        let other = Book::default().start(new("two"), signed("ada")).unwrap();
        let runs: Vec<RunId> =
            (0..5_000u64).map(|number| RunId::new(Timestamp::from_millis(number), [7; 10])).collect();
        let arms: Vec<Arm> = runs.iter().map(|run| rollout.arm_of(*run)).collect();
        let tried = arms.iter().filter(|arm| **arm == Arm::Candidate).count();
        assert!((400..600).contains(&tried), "{tried} of 5000 are in an arm of 10 %");
        assert_eq!(arms, runs.iter().map(|run| rollout.arm_of(*run)).collect::<Vec<_>>());
        assert_ne!(arms, runs.iter().map(|run| other.arm_of(*run)).collect::<Vec<_>>());
    }

    #[test]
    fn a_large_book_forgets_its_oldest_entries_first() {
        let mut book = Book::default();
        (1..=100).for_each(|delay| drop(set(&mut book, delay)));
        assert!(book.forget_some());
        assert_eq!(book.versions(Scope::LockBusy).number(), 100, "the current version stays");
        while book.forget_some() {}
        assert_eq!(book.versions(Scope::LockBusy).tuning(), Some(fixed(100)));
    }

    #[test]
    fn a_book_round_trips() {
        let mut book = Book::default();
        set(&mut book, 700);
        let rollout = book.start(new("one"), signed("ada")).unwrap();
        book.end(&rollout.id, RolloutEventKind::RolledBack, Measured::default(), signed("interlock"))
            .unwrap();
        let text = serde_json::to_string(&book).unwrap();
        assert_eq!(serde_json::from_str::<Book>(&text).unwrap(), book);
        assert_eq!(serde_json::from_str::<Book>("{}").unwrap(), Book::default());
    }
}
