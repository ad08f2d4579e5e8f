//! Decides about held jobs: by rules at once, by asking a service otherwise; then by their budgets.

mod budget;
mod explain;
mod judge;
mod service;
mod settling;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interlock_model::TenantId;
use interlock_model::dispatch_policy::Breaker;
use tokio::sync::Semaphore;

use crate::dispatch_policy::DispatchPolicy;
use crate::process::Process;
use budget::RunGroups;
pub use explain::{ExplainTarget, PolicyExplanation, RuleCheck, ServiceHealth};
pub use judge::Judgement;
pub use settling::SettlingReport;
pub(crate) use settling::run;

/// Settles held jobs, and tracks the health of the policy service.
pub struct Policy {
    process: Arc<Process>,
    breaker: Mutex<Breaker>,
    /// The last failure of the service.
    trouble: Mutex<String>,
    questions: Semaphore,
    fail_opens: AtomicU64,
    /// Tenants whose jobs wait for the service.
    waiting: Mutex<BTreeSet<TenantId>>,
    /// The service answers again, and the tenants that wait for it have not been settled since.
    is_back: AtomicBool,
    run_groups: RunGroups,
}

impl Policy {
    pub fn new(process: Arc<Process>) -> Self {
        let (failures_max, pause, questions_max) = match &process.settings.dispatch_policy.service {
            None => (1, Duration::ZERO, 1),
            Some(service) => (service.failures_max, service.pause, service.questions_max.max(1)),
        };
        Self {
            process,
            breaker: Mutex::new(Breaker::new(failures_max, pause)),
            trouble: Mutex::default(),
            questions: Semaphore::new(questions_max),
            fail_opens: AtomicU64::new(0),
            waiting: Mutex::default(),
            is_back: AtomicBool::new(false),
            run_groups: RunGroups::default(),
        }
    }

    fn configured(&self) -> &DispatchPolicy {
        &self.process.settings.dispatch_policy
    }

    /// Jobs that were released because the policy service was unreachable, since the process began.
    pub fn fail_opens(&self) -> u64 {
        self.fail_opens.load(Ordering::Relaxed)
    }

    fn with_breaker<T>(&self, act: impl FnOnce(&mut Breaker) -> T) -> T {
        act(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<TenantId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
