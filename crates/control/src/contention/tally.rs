//! What this process has counted of contention.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_model::RolloutId;
use interlock_model::contention::{Arm, Figures, Measured, ResultEvent};
use tokio::time::Instant;

/// Why a reserved idempotency key is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupContext {
    /// The tenant's live runs could not be counted.
    CountFailed,
    /// The tenant was full.
    AtCapacity,
    /// The run was not created.
    CreateFailed,
    /// The client disconnected.
    Cancelled,
}

impl CleanupContext {
    pub const ALL: [Self; 4] = [Self::CountFailed, Self::AtCapacity, Self::CreateFailed, Self::Cancelled];

    pub fn name(self) -> &'static str {
        match self {
            Self::CountFailed => "count_failed",
            Self::AtCapacity => "at_capacity",
            Self::CreateFailed => "create_failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Everything that was counted, at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tallied {
    pub control: Figures,
    pub candidate: Figures,
    cleanup_failures: [u64; CleanupContext::ALL.len()],
}

impl Tallied {
    pub fn of(&self, arm: Arm) -> &Figures {
        match arm {
            Arm::Control => &self.control,
            Arm::Candidate => &self.candidate,
        }
    }

    pub fn cleanup_failures(&self, context: CleanupContext) -> u64 {
        self.cleanup_failures[context as usize]
    }

    fn arm(&mut self, arm: Arm) -> &mut Figures {
        match arm {
            Arm::Control => &mut self.control,
            Arm::Candidate => &mut self.candidate,
        }
    }
}

/// What was counted of one rollout.
#[derive(Debug)]
struct Comparison {
    rollout: RolloutId,
    /// How old it was when this process learned of it, and when that was.
    known_since: (Duration, Instant),
    measured: Measured,
    saved: Measured,
}

/// Counted since the process began.
#[derive(Debug, Default)]
pub struct Tally {
    counted: Mutex<Tallied>,
    /// Counted since this process has known of the running rollout.
    compared: Mutex<Option<Comparison>>,
}

impl Tally {
    /// Attempt `attempt` (from 1) of a result that arrived `waited` ago found its run busy; the next is after `delay`.
    pub fn busy(&self, arm: Arm, (attempt, waited): (u32, Duration), delay: Duration) {
        self.count_in(arm, &ResultEvent::Busy { attempt, waited, delay });
    }

    /// A turn has processed a result, `took` after its arrival. Its run was acquired at delivery `attempt`, after `waited`.
    pub fn settled(&self, arm: Arm, (attempt, waited): (u32, Duration), took: Duration) {
        self.count_in(arm, &ResultEvent::Settled { attempt, waited, took });
    }

    /// A release of a reserved key failed.
    pub fn cleanup_failed(&self, context: CleanupContext) {
        self.count(|counted| counted.cleanup_failures[context as usize] += 1);
    }

    pub fn counted(&self) -> Tallied {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on the arms are those of this rollout, with its age. Counts of the rollout that is already known are kept.
    pub(crate) fn compare(&self, rollout: Option<(RolloutId, Duration)>) {
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared.as_ref().map(|comparison| &comparison.rollout) == rollout.as_ref().map(|(id, _)| id) {
            return;
        }
        *compared = rollout.map(|(rollout, age)| Comparison {
            rollout,
            known_since: (age, Instant::now()),
            measured: Measured::default(),
            saved: Measured::default(),
        });
    }

    /// The figures of the running rollout, if they changed since they were saved.
    pub(crate) fn unsaved(&self) -> Option<(RolloutId, Measured)> {
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let comparison = compared.as_ref().filter(|comparison| comparison.measured != comparison.saved)?;
        Some((comparison.rollout.clone(), comparison.measured.clone()))
    }

    pub(crate) fn saved(&self, rollout: &RolloutId, measured: &Measured) {
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(comparison) = compared.as_mut().filter(|comparison| comparison.rollout == *rollout) {
            comparison.saved.clone_from(measured);
        }
    }

    /// In the arm's figures since the process began, and in those of the running rollout. A result that arrived before the
    /// rollout began has waited by another policy, and says nothing about its arms.
    fn count_in(&self, arm: Arm, event: &ResultEvent) {
        self.count(|counted| counted.arm(arm).count(event));
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(comparison) = compared.as_mut() {
            let (age, at) = comparison.known_since;
            if let Some(arrived) = (age + at.elapsed()).checked_sub(event.age()) {
                comparison.measured.count(arm, arrived, event);
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut Tallied)) {
        change(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
