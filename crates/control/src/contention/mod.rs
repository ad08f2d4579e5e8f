//! Where several want the same thing at once: which strategy and tuning is in force, and what is counted of it.

mod tally;

use std::sync::{Arc, PoisonError, RwLock};

use interlock_model::RunId;
use interlock_model::contention::{AdmissionStrategy, Arm, RunStrategy, Tuning};

pub use tally::{CleanupContext, Tallied, Tally};

/// Strategies as the process began with them, tunings as they are in force, figures since the process began.
#[derive(Debug)]
pub struct Contention {
    admission_strategy: AdmissionStrategy,
    run_strategy: RunStrategy,
    in_force: RwLock<Arc<InForce>>,
    tally: Arc<Tally>,
}

/// The tunings that hold at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    pub admission: Tuning,
    pub lock_busy: Tuning,
}

impl Contention {
    pub(crate) fn new(strategies: (AdmissionStrategy, RunStrategy), in_force: InForce) -> Self {
        let (admission_strategy, run_strategy) = strategies;
        let in_force = RwLock::new(Arc::new(in_force));
        Self { admission_strategy, run_strategy, in_force, tally: Arc::default() }
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
    pub fn lock_busy(&self, _run: RunId) -> (Arm, Tuning) {
        (Arm::Control, self.in_force().lock_busy)
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
}
