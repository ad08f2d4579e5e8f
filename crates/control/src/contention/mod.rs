//! Contention for runs and for admission: the strategies and tunings in force, and their measurements.

mod tally;

use std::sync::{Arc, PoisonError, RwLock};

use interlock_backend::documents::Document;
use interlock_model::contention::{
    AdmissionStrategy, Arm, Book, Rollout, RunStrategy, Scope, Tuning, Version,
};
use interlock_model::{RunId, Timestamp};

pub use tally::{CleanupContext, Tallied, Tally};

/// Strategies as the process began with them, tunings as they are in force, figures since the process began.
#[derive(Debug)]
pub struct Contention {
    admission_strategy: AdmissionStrategy,
    run_strategy: RunStrategy,
    pub(crate) configured: ConfiguredTunings,
    in_force: RwLock<Arc<InForce>>,
    tally: Arc<Tally>,
}

/// The tunings that the process was started with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfiguredTunings {
    pub admission: Tuning,
    pub lock_busy: Tuning,
}

impl ConfiguredTunings {
    #[must_use]
    pub fn of(&self, scope: Scope) -> Tuning {
        match scope {
            Scope::Admission => self.admission,
            Scope::LockBusy => self.lock_busy,
        }
    }
}

/// The tunings that hold at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    pub admission: Tuning,
    pub lock_busy: Tuning,
    /// The roll-out that runs.
    pub rollout: Option<Rollout>,
    /// What the store says, as it was read and as it was written.
    book: Book,
    pub(crate) document: Option<Document>,
}

/// A tuning in force, with the change that put it there. None: as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct InForceView {
    pub scope: Scope,
    pub tuning: Tuning,
    pub version: Option<Version>,
}

impl InForce {
    /// What holds in this process.
    #[must_use]
    pub fn view(&self, scope: Scope) -> InForceView {
        let version = self.book.versions(scope).last().cloned();
        InForceView { scope, tuning: self.tuning(scope), version }
    }

    fn of(configured: ConfiguredTunings, document: Option<Document>, book: Book) -> Self {
        let tuning = |scope| book.versions(scope).tuning().unwrap_or(configured.of(scope));
        Self {
            admission: tuning(Scope::Admission),
            lock_busy: tuning(Scope::LockBusy),
            rollout: book.running().cloned(),
            document,
            book,
        }
    }

    #[must_use]
    pub fn tuning(&self, scope: Scope) -> Tuning {
        match scope {
            Scope::Admission => self.admission,
            Scope::LockBusy => self.lock_busy,
        }
    }

    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }
}

impl Contention {
    pub(crate) fn new(strategies: (AdmissionStrategy, RunStrategy), configured: ConfiguredTunings) -> Self {
        let (admission_strategy, run_strategy) = strategies;
        let in_force = RwLock::new(Arc::new(InForce::of(configured, None, Book::default())));
        Self { admission_strategy, run_strategy, configured, in_force, tally: Arc::default() }
    }

    #[must_use]
    pub fn admission_strategy(&self) -> AdmissionStrategy {
        self.admission_strategy
    }

    #[must_use]
    pub fn run_strategy(&self) -> RunStrategy {
        self.run_strategy
    }

    /// How starts wait for their tenant's admission lock.
    #[must_use]
    pub fn admission(&self) -> Tuning {
        self.in_force().admission
    }

    /// How results wait for the lock of this run, and the arm that they are counted under.
    #[must_use]
    pub fn lock_busy(&self, run: RunId) -> (Arm, Tuning) {
        let in_force = self.in_force();
        match &in_force.rollout {
            None => (Arm::Control, in_force.lock_busy),
            Some(rollout) => {
                let arm = rollout.arm_of(run);
                (arm, rollout.tuning(arm))
            }
        }
    }

    #[must_use]
    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// For what goes on after the request that began it.
    pub(crate) fn shared_tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// Puts in force what the store says, be it newer, or older because the store has lost something.
    pub(crate) fn put_in_force(&self, document: Option<Document>, book: Book, now: Timestamp) {
        let new = InForce::of(self.configured, document, book);
        let running = new.rollout.as_ref().map(|rollout| (rollout.id.clone(), rollout.elapsed(now)));
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        // Before anybody can be told that its run is in an arm, it is counted there.
        self.tally.compare(running);
        *in_force = Arc::new(new);
    }
}
