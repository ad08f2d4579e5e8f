//! Processes on one store, and one policy service for all of them.

use interlock_backend::verbs::{FindDue, ReadJob, SaveWorkflow, SetLimits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::clock::RuntimeClock;
use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_backend::jobs::{Claim, Claimed, LeaseTerm};
use interlock_backend::tenants::LimitScope;
use interlock_backend::{InProcessBus, Store, memory};
use interlock_control::admission::StartRequest;
use interlock_control::dispatch_policy::{DispatchPolicy, PolicyService, ServiceConfig};
use interlock_control::identity::Identity;
use interlock_control::policy::SettlingReport;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::dispatch_policy::{
    Answer, AnsweredDecision, FailureMode, Hold, Question, Rules, ServiceTerms,
};
use interlock_model::limit::Limits;
use interlock_model::scheduling::Edge;
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{Clock, JobId, TenantId, Timestamp, WorkflowId};
use serde_json::json;

/// Allows everything, unless it is unreachable or throttles.
#[derive(Default)]
pub(crate) struct Switched {
    is_away: AtomicBool,
    throttles: AtomicBool,
    asked: AtomicUsize,
}

impl Switched {
    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(crate) fn set_throttling(&self) {
        self.throttles.store(true, Ordering::Relaxed);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl PolicyService for Switched {
    async fn ask(&self, _: &Question) -> Result<Answer, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_away.load(Ordering::Relaxed) {
            return Err("connection refused".to_owned());
        }
        let throttles = self.throttles.load(Ordering::Relaxed);
        let decision = if throttles { AnsweredDecision::Throttle } else { AnsweredDecision::Allow };
        Ok(Answer { decision, reason: None, rule_id: None, retry_after_ms: None })
    }
}

pub(crate) struct Scene {
    store: Store,
    /// What the processes have of the store.
    pub(crate) line: Arc<FaultyStore>,
    pub(crate) service: Arc<Switched>,
    clock: Arc<RuntimeClock>,
}

pub(crate) fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn workflow() -> WorkflowId {
    "job".parse().unwrap()
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let backend = Arc::new(memory::store(clock.clone()));
        let store = Store::new(backend.clone());
        let document = json!({"name": "job", "steps": {"step": {"type": "worker", "topic": "work"}}});
        let document: WorkflowDocument = serde_json::from_value(document).unwrap();
        for name in ["acme", "globex"] {
            store
                .call(SaveWorkflow { tenant: tenant(name), id: workflow(), document: document.clone() })
                .await
                .unwrap();
            let limits = Limits { runs_max: Some(1_000), ..Limits::default() };
            store
                .call(SetLimits { scope: LimitScope::Tenant(tenant(name)), limits, keeps_quotas: false })
                .await
                .unwrap();
        }
        let line = Arc::new(FaultyStore::new(backend, 4_711, Faults::NONE));
        Self { store, line, service: Arc::default(), clock }
    }

    /// A policy that leaves everything to the service.
    pub(crate) fn asking(&self, failure: FailureMode) -> DispatchPolicy {
        let service = ServiceConfig {
            client: self.service.clone(),
            place: "http://policy.test".to_owned(),
            terms: ServiceTerms { failure, tenants: std::collections::BTreeMap::new() },
            timeout: Duration::from_secs(1),
            questions_max: 1,
            failures_max: 3,
            pause: Duration::from_secs(2),
        };
        DispatchPolicy { rules: Rules::default(), service: Some(service) }
    }

    pub(crate) fn process(&self, seed: u64, policy: &DispatchPolicy) -> Arc<Control> {
        let foundation = Foundation {
            store: Store::new(self.line.clone()),
            bus: Arc::new(InProcessBus::default()),
            clock: self.clock.clone(),
            identity: Identity::from_seed(seed),
            instance: format!("i-{seed}").parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        Control::new(foundation, Settings { dispatch_policy: policy.clone(), ..Settings::default() })
    }

    /// Starts this many runs. Returns their jobs.
    pub(crate) async fn start(&self, process: &Control, name: &str, runs: usize) -> Vec<JobId> {
        let mut jobs = Vec::new();
        for _ in 0..runs {
            let (tenant, workflow) = (tenant(name), workflow());
            let started = process.admission.start(StartRequest::new(tenant, workflow, json!({}))).await;
            let Ok(StartOutcome::Admitted { run, .. }) = started else { panic!("not started: {started:?}") };
            jobs.push(format!("{run}:step@1").parse().unwrap());
        }
        jobs
    }

    /// One look at what is due.
    pub(crate) async fn settle(&self, process: &Control) -> SettlingReport {
        process.reconcilers.run_once().await.unwrap();
        process.policy.run_once().await
    }

    pub(crate) async fn claim(&self, name: &str) -> Vec<Claimed> {
        let claim = Claim {
            tenant: tenant(name),
            worker: "w".parse().unwrap(),
            topics: vec!["work".parse().unwrap()],
            capabilities: Vec::new(),
            jobs_max: 1_000,
            term: LeaseTerm::For(Duration::from_hours(1)),
            edge: Edge::Http,
        };
        self.store.call(claim).await.unwrap()
    }

    pub(crate) async fn hold(&self, job: &JobId) -> Option<Hold> {
        self.store.call(ReadJob { tenant: tenant("acme"), job: job.clone() }).await.unwrap().unwrap().hold
    }

    pub(crate) async fn store_due_held(&self) -> Vec<TenantId> {
        self.store.call(FindDue { limit: 10 }).await.unwrap().held
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
