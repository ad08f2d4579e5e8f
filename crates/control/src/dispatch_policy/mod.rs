//! What must be decided before a job may go to a worker: by rules at once, by a service through held jobs.

mod explain;
mod holding;
mod judge;
mod service;
mod settling;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::TenantId;
use interlock_model::dispatch_policy::{Answer, Breaker, Question, Rules, ServiceTerms};
use tokio::sync::Semaphore;

pub use explain::{Asked, Explanation, Look, ServiceStanding};
pub use judge::Judgement;
pub use settling::{Report, run, run_once};

/// An external service that judges what no rule does. One call, no retries: whoever asks decides what silence means.
#[async_trait]
pub trait PolicyService: Send + Sync {
    /// The answer, or in words why there is none.
    async fn ask(&self, question: &Question) -> Result<Answer, String>;
}

/// The policy of this process.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    pub rules: Rules,
    /// Asked where no rule decides. None: what no rule decides may go.
    pub service: Option<Service>,
}

/// The service, and how patient we are with it.
#[derive(Clone)]
pub struct Service {
    pub line: Arc<dyn PolicyService>,
    /// Where it is, for people; without secrets.
    pub place: String,
    pub terms: ServiceTerms,
    pub timeout: Duration,
    /// Questions that are on their way at once.
    pub questions_max: usize,
    /// Failures in a row until it is left in peace, and for how long.
    pub failures_max: u32,
    pub pause: Duration,
}

impl fmt::Debug for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Service")
            .field("place", &self.place)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

/// What a process knows of its policy beside what is configured.
pub(crate) struct State {
    breaker: Mutex<Breaker>,
    /// The last failure in words.
    trouble: Mutex<String>,
    questions: Semaphore,
    fail_opens: AtomicU64,
    /// Tenants whose jobs wait for the service.
    waiting: Mutex<BTreeSet<TenantId>>,
    /// The service has answered after it was away, and nobody has looked at who waits for it since.
    is_back: AtomicBool,
}

impl State {
    pub(crate) fn of(configured: &Configured) -> Self {
        let (failures_max, pause, questions_max) = match &configured.service {
            None => (1, Duration::ZERO, 1),
            Some(service) => (service.failures_max, service.pause, service.questions_max.max(1)),
        };
        Self {
            breaker: Mutex::new(Breaker::new(failures_max, pause)),
            trouble: Mutex::default(),
            questions: Semaphore::new(questions_max),
            fail_opens: AtomicU64::new(0),
            waiting: Mutex::default(),
            is_back: AtomicBool::new(false),
        }
    }

    fn with_breaker<T>(&self, act: impl FnOnce(&mut Breaker) -> T) -> T {
        act(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note_waiting(&self, tenant: &TenantId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone());
    }

    fn first_waiting(&self) -> Option<TenantId> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    fn forget_waiting(&self, tenant: &TenantId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }

    /// Those whose jobs waited for the service, once, if it is back.
    fn take_waiting_if_back(&self) -> BTreeSet<TenantId> {
        if !self.is_back.swap(false, Ordering::Relaxed) {
            return BTreeSet::new();
        }
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
