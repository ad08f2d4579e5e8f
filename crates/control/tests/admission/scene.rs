//! Processes on one store whose starts wait for their tenant's lock.

use interlock_backend::verbs::{DeleteRun, ListActiveRuns, ReadLock, SaveWorkflow, SetLimits};
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::locks::{AcquireLock, Acquired};
use interlock_backend::memory;
use interlock_backend::tenants::LimitScope;
use interlock_backend::{Backend, InProcessBus, Store, StoreError};
use interlock_control::admission::{StartError, StartRequest};
use interlock_control::contention::CleanupContext;
use interlock_control::identity::Identity;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::contention::AdmissionStrategy;
use interlock_model::limit::Limits;
use interlock_model::lock::{Grant, LockLimits, LockMode, LockName};
use interlock_model::{Clock, RunId, TenantId, Timestamp, WorkflowId};
use serde_json::{Value, json};

use crate::line::{Wire, over};

/// The documented lease of the lock.
pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) struct Scene {
    pub(crate) store: Store,
    backend: Arc<dyn Backend>,
    pub(crate) settings: Settings,
    clock: Arc<dyn Clock>,
}

pub(crate) struct Process {
    pub(crate) control: Arc<Control>,
    pub(crate) wire: Arc<Wire>,
}

pub(crate) fn acme() -> TenantId {
    "acme".parse().unwrap()
}

pub(crate) fn deploy() -> WorkflowId {
    "deploy".parse().unwrap()
}

pub(crate) fn gate() -> LockName {
    LockName::Admission(acme())
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_794_700_800_000)
}

impl Scene {
    /// In memory, on a clock that only goes when everybody waits.
    pub(crate) async fn new(cap: u32) -> Self {
        let clock = Arc::new(RuntimeClock::starting_at(now()));
        Self::on(Arc::new(memory::store(clock.clone())), clock, cap).await
    }

    pub(crate) async fn on(backend: Arc<dyn Backend>, clock: Arc<dyn Clock>, cap: u32) -> Self {
        let settings = Settings {
            admission_strategy: AdmissionStrategy::Lock,
            admission_repeats_max: 1,
            ..Settings::default()
        };
        let store = Store::new(backend.clone());
        let scene = Self { store, backend, settings, clock };
        scene.save_workflow().await;
        scene.limit(cap).await;
        scene
    }

    pub(crate) async fn save_workflow(&self) {
        let document = json!({"name": "deploy", "steps": {"work": {"type": "worker", "topic": "work"}},
            "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
        let document = serde_json::from_value(document).unwrap();
        self.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document }).await.unwrap();
    }

    pub(crate) async fn limit(&self, cap: u32) {
        let limits = Limits { runs_max: Some(cap), ..Limits::default() };
        self.store
            .call(SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false })
            .await
            .unwrap();
    }

    /// A process with a line of its own to the store. Its first run id is that of [`first_run`].
    pub(crate) fn process(&self, seed: u64) -> Process {
        let wire = Arc::new(Wire::default());
        let foundation = Foundation {
            store: Store::new(over(wire.clone(), self.backend.clone())),
            bus: Arc::new(InProcessBus::default()),
            clock: self.clock.clone(),
            identity: Identity::from_seed(seed),
            instance: format!("i-{seed}").parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        Process { control: Control::new(foundation, self.settings.clone()), wire }
    }

    /// The id that the first start of a new process gets now.
    pub(crate) fn first_run(&self, seed: u64) -> RunId {
        Identity::from_seed(seed).run_id(self.clock.now())
    }

    /// Another owner holds the lock.
    pub(crate) async fn outsider(&self, ttl: Duration) -> Grant {
        let acquire = AcquireLock {
            lock: gate(),
            owner: "outsider".parse().unwrap(),
            mode: LockMode::Exclusive,
            ttl,
            request: "outside".parse().unwrap(),
            call: "outside".parse().unwrap(),
            held: None,
            stay: None,
            limits: LockLimits::default(),
        };
        let answer = self.store.call(acquire.clone()).await.unwrap().answer;
        let Acquired::Granted(grant) = answer else { panic!("the lock is not free: {answer:?}") };
        grant
    }

    pub(crate) async fn holder(&self) -> Option<Grant> {
        self.store
            .call(ReadLock { lock: gate() })
            .await
            .unwrap()
            .and_then(|lock| lock.view.holders.first().cloned())
    }

    pub(crate) async fn active(&self) -> Vec<RunId> {
        self.store.call(ListActiveRuns { tenant: acme(), limit: 1_000 }).await.unwrap()
    }

    /// Ends a run, whatever it is at.
    pub(crate) async fn end(&self, run: RunId) -> Result<(), StoreError> {
        self.store.call(DeleteRun { tenant: acme(), run }).await.map(drop)
    }
}

impl Process {
    pub(crate) async fn start(&self, key: Option<&str>, input: Value) -> Result<StartOutcome, StartError> {
        let key = key.map(|key| key.parse().unwrap());
        self.control.admission.start(StartRequest { key, ..StartRequest::new(acme(), deploy(), input) }).await
    }

    pub(crate) async fn started(&self, key: Option<&str>) -> RunId {
        match self.start(key, json!({"n": 1})).await {
            Ok(StartOutcome::Admitted { run, .. }) => run,
            other => panic!("expected a new run, got {other:?}"),
        }
    }

    /// Failed releases of reserved keys, by the reason of the release.
    pub(crate) fn cleanup_failures(&self) -> Vec<u64> {
        let counted = self.control.contention.tally.counted();
        CleanupContext::ALL.iter().map(|context| counted.cleanup_failures(*context)).collect()
    }
}
