//! Contention for runs and for admission: the strategies and tunings in force, and their measurements.

mod tally;

use std::sync::{Arc, PoisonError, RwLock};

use interlock_backend::documents::Document;
use interlock_model::contention::{Arm, Book, Rollout, Scope, Tuning, Version};
use interlock_model::{RunId, Timestamp};

pub use tally::{CleanupContext, Tallied, Tally};

/// Tunings as they are in force, and figures since the process began.
#[derive(Debug)]
pub struct Contention {
    /// The tunings that the process was started with.
    pub(crate) configured: Tunings,
    in_force: RwLock<Arc<InForce>>,
    pub tally: Arc<Tally>,
}

/// A tuning for each scope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tunings {
    /// How starts wait for their tenant's admission lock.
    pub admission: Tuning,
    /// How results wait for a busy run.
    pub lock_busy: Tuning,
}

/// The tunings that hold at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    pub tunings: Tunings,
    /// The running rollout.
    pub rollout: Option<Rollout>,
    /// What the store says, as it was read and as it was written.
    pub book: Book,
    pub(crate) document: Option<Document>,
}

/// A tuning in force, with the change that put it there. None: as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct InForceView {
    pub scope: Scope,
    pub tuning: Tuning,
    pub version: Option<Version>,
}

impl Tunings {
    pub fn of(&self, scope: Scope) -> Tuning {
        match scope {
            Scope::Admission => self.admission,
            Scope::LockBusy => self.lock_busy,
        }
    }

    /// What holds in a process with these tunings and this book.
    pub fn view(&self, book: &Book, scope: Scope) -> InForceView {
        let tuning = book.versions(scope).tuning().unwrap_or(self.of(scope));
        InForceView { scope, tuning, version: book.versions(scope).last().cloned() }
    }
}

impl InForce {
    /// What holds in this process.
    pub fn view(&self, scope: Scope) -> InForceView {
        self.tunings.view(&self.book, scope)
    }

    fn of(configured: Tunings, document: Option<Document>, book: Book) -> Self {
        let tuning = |scope| configured.view(&book, scope).tuning;
        let tunings = Tunings { admission: tuning(Scope::Admission), lock_busy: tuning(Scope::LockBusy) };
        Self { tunings, rollout: book.running().cloned(), document, book }
    }
}

impl Contention {
    pub(crate) fn new(configured: Tunings) -> Self {
        let in_force = RwLock::new(Arc::new(InForce::of(configured, None, Book::default())));
        Self { configured, in_force, tally: Arc::default() }
    }

    /// How results wait for the lock of this run, and the arm that they are counted under.
    pub fn lock_busy(&self, run: RunId) -> (Arm, Tuning) {
        let in_force = self.in_force();
        match &in_force.rollout {
            None => (Arm::Control, in_force.tunings.lock_busy),
            Some(rollout) => {
                let arm = rollout.arm_of(run);
                (arm, rollout.tuning(arm))
            }
        }
    }

    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts in force what the store says, be it newer, or older because the store has lost something.
    pub(crate) fn put_in_force(&self, document: Option<Document>, book: Book, now: Timestamp) {
        let new = InForce::of(self.configured, document, book);
        let running = new.rollout.as_ref().map(|rollout| (rollout.id.clone(), rollout.elapsed(now)));
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        // A run is counted in its arm from the first moment that a caller can see the arm.
        self.tally.compare(running);
        *in_force = Arc::new(new);
    }
}
