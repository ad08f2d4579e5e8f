//! What this process has counted of contention.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_model::contention::{Arm, Figures};

/// Why a reserved idempotency key was to be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupContext {
    /// The tenant's live runs could not be counted.
    CountFailed,
    /// The tenant was full.
    AtCapacity,
    /// The run was not created.
    CreateFailed,
    /// Whoever asked had gone.
    Cancelled,
}

impl CleanupContext {
    pub const ALL: [Self; 4] = [Self::CountFailed, Self::AtCapacity, Self::CreateFailed, Self::Cancelled];

    #[must_use]
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
    #[must_use]
    pub fn of(&self, arm: Arm) -> &Figures {
        match arm {
            Arm::Control => &self.control,
            Arm::Candidate => &self.candidate,
        }
    }

    #[must_use]
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

/// Counted since the process began.
#[derive(Debug, Default)]
pub struct Tally {
    counted: Mutex<Tallied>,
}

impl Tally {
    /// Try number `attempt` (from 1) of a result found its run busy; it comes again after `delay`.
    pub fn busy(&self, arm: Arm, attempt: u32, delay: Duration) {
        self.count(|counted| {
            let figures = counted.arm(arm);
            figures.retries += 1;
            figures.busy_at_first += u64::from(attempt == 1);
            figures.retry_delay.observe(milliseconds(delay));
        });
    }

    /// A run was held for a result at its try number `attempt`, `waited` after it had come.
    pub fn reached(&self, arm: Arm, attempt: u32, waited: Duration) {
        self.count(|counted| {
            let figures = counted.arm(arm);
            figures.results += 1;
            figures.first_retry_successes += u64::from(attempt == 2);
            figures.lock_wait.observe(milliseconds(waited));
        });
    }

    /// A run has taken a result into account, `took` after it had come.
    pub fn settled(&self, arm: Arm, took: Duration) {
        self.count(|counted| counted.arm(arm).result_latency.observe(milliseconds(took)));
    }

    /// A reserved key was not given back at the first try.
    pub fn cleanup_failed(&self, context: CleanupContext) {
        self.count(|counted| counted.cleanup_failures[context as usize] += 1);
    }

    #[must_use]
    pub fn counted(&self) -> Tallied {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, change: impl FnOnce(&mut Tallied)) {
        change(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
