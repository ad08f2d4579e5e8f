//! One process whose bus records every wake-up and delivers none: nothing happens but what a test does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::clock::RuntimeClock;
use interlock_backend::jobs::{Claim, Claimed, LeaseTerm};
use interlock_backend::memory::{self, MemoryStore};
use interlock_backend::verbs::{Admit, Answer, ReadRun, RecordResult, Request};
use interlock_backend::{Backend, Bus, InProcessBus, Store, StoreError, Wake};
use interlock_control::admission::StartRequest;
use interlock_control::identity::Identity;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::run::{Run, RunStatus};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, IdempotencyKey, JobId, RunId, TenantId, Timestamp, Topic};
use serde_json::{Value, json};
use tokio::sync::broadcast;

pub(crate) struct Scene {
    pub(crate) control: Arc<Control>,
    pub(crate) store: Store,
    pub(crate) tables: Arc<MemoryStore>,
    line: Arc<BusyLine>,
    bus: Arc<RecordingBus>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
        let tables = Arc::new(memory::store(Arc::new(clock)));
        let line = Arc::new(BusyLine {
            tables: tables.clone(),
            next: Mutex::default(),
            refuses: AtomicBool::new(false),
        });
        let bus = Arc::new(RecordingBus::default());
        let foundation = Foundation {
            store: Store::new(line.clone()),
            bus: bus.clone(),
            clock: Arc::new(clock),
            identity: Identity::from_seed(1),
            instance: "i-1".parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(foundation, settings);
        Self { control, store: Store::new(tables.clone()), tables, line, bus }
    }

    /// The wake-ups since the last look, in the order in which they were sent.
    pub(crate) fn woken(&self) -> Vec<Wake> {
        std::mem::take(&mut self.bus.sent.lock().unwrap())
    }

    /// Saves a workflow of these steps.
    pub(crate) async fn save(&self, steps: Value) {
        let document = json!({"id": "job", "name": "job", "steps": steps});
        let document = serde_json::from_value(document).unwrap();
        self.control.documents.save_workflow(&acme(), document).await.unwrap();
        self.woken();
    }

    pub(crate) async fn start(&self, input: Value) -> RunId {
        let started = self.try_start(input, None).await;
        let StartOutcome::Admitted { run, .. } = started else { panic!("not started: {started:?}") };
        run
    }

    pub(crate) async fn try_start(&self, input: Value, key: Option<IdempotencyKey>) -> StartOutcome {
        let workflow = "job".parse().unwrap();
        let start = StartRequest { key, ..StartRequest::new(acme(), workflow, input) };
        self.control.admission.start(start).await.unwrap()
    }

    /// A run of these steps, whose wake-ups are read.
    pub(crate) async fn run(&self, steps: Value) -> RunId {
        self.save(steps).await;
        let run = self.start(json!({})).await;
        self.woken();
        run
    }

    /// All jobs of the topic `work`.
    pub(crate) async fn claim(&self, lease: Duration, edge: Edge) -> Vec<Claimed> {
        let claim = Claim {
            tenant: acme(),
            worker: "w".parse().unwrap(),
            topics: vec![work()],
            capabilities: Vec::new(),
            jobs_max: 100,
            term: LeaseTerm::For(lease),
            edge,
        };
        self.control.results.claim_now(claim).await.unwrap()
    }

    pub(crate) async fn claim_one(&self) -> Claimed {
        self.claim(AN_HOUR, Edge::Http).await.pop().expect("a job waits")
    }

    pub(crate) async fn submit(&self, job: &Claimed, outcome: JobOutcome) {
        self.control.results.submit(&acme(), &job.job.id, job.lease.fence, outcome).await.unwrap();
    }

    pub(crate) async fn found(&self, run: RunId) -> Run {
        self.store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap()
    }

    pub(crate) async fn status(&self, run: RunId) -> RunStatus {
        self.found(run).await.head.status
    }

    /// From now on, the result of one of these jobs reaches the store just before each commit of the engine.
    pub(crate) fn complete_before_each_commit(&self, jobs: Vec<Claimed>) {
        let results = jobs.into_iter().map(|job| (job.job.id, job.lease.fence));
        self.line.next.lock().unwrap().extend(results);
    }

    /// From now on, no turn of the engine is written.
    pub(crate) fn refuse_commits(&self) {
        self.line.refuses.store(true, Ordering::Relaxed);
    }
}

pub(crate) const AN_HOUR: Duration = Duration::from_hours(1);

pub(crate) fn acme() -> TenantId {
    "acme".parse().unwrap()
}

pub(crate) fn work() -> Topic {
    "work".parse().unwrap()
}

pub(crate) fn completed() -> JobOutcome {
    JobOutcome::completed(json!({}))
}

pub(crate) fn run_ready() -> Wake {
    Wake::RunReady { tenant: acme() }
}

pub(crate) fn jobs_ready(topic: &str, jobs: u32) -> Wake {
    Wake::JobsReady { tenant: acme(), topic: topic.parse().unwrap(), jobs }
}

/// The store, as the process sees it. Results of others arrive in the middle of its turns.
struct BusyLine {
    tables: Arc<MemoryStore>,
    next: Mutex<Vec<(JobId, Fence)>>,
    refuses: AtomicBool,
}

#[async_trait]
impl Backend for BusyLine {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        if let Request::Commit(_) = &request {
            if self.refuses.load(Ordering::Relaxed) {
                return Err(StoreError::Conflict("not now".to_owned()));
            }
            let next = self.next.lock().unwrap().pop();
            if let Some((job, fence)) = next {
                let record = RecordResult { tenant: acme(), job, fence, edge: None, outcome: completed() };
                let _ = Store::new(self.tables.clone()).call(record).await?;
            }
        }
        self.tables.ask(request).await
    }

    fn refusal(&self, admit: &Admit) -> Option<StartOutcome> {
        self.tables.refusal(admit)
    }

    fn commands_sent(&self) -> u64 {
        self.tables.commands_sent()
    }
}

#[derive(Default)]
struct RecordingBus {
    sent: Mutex<Vec<Wake>>,
    silent: InProcessBus,
}

impl Bus for RecordingBus {
    fn wake(&self, wake: Wake) {
        self.sent.lock().unwrap().push(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.silent.subscribe()
    }

    fn is_connected(&self) -> bool {
        true
    }
}
