//! A control plane with NATS workers on real servers.

use interlock_backend::verbs::ReadRun;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Client;
use async_trait::async_trait;
use interlock_backend::clock::SystemClock;
use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_backend::mailbox::Mailbox;
use interlock_backend::{Bus, Effect, InProcessBus, Store, StoreError, memory};
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_backend_redis::mailbox::RedisMailbox;
use interlock_cap::{CapSettings, Edge, NatsCounts, Parts};
use interlock_control::admission::StartRequest;
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles, run_stages};
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::contention::{Scope, Tuning};
use interlock_model::lock::{Inventory, Timings};
use interlock_model::run::Run;
use interlock_model::scheduling::Pools;
use interlock_model::{JobId, RunId, TenantId};
use interlock_poll::until;
use interlock_servers::{Nats, NatsOptions, NatsRelease, Redis};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const TOPIC: &str = "job.work";

pub(crate) struct Fixture {
    pub(crate) nats: Nats,
    pub(crate) redis: &'static Redis,
    pub(crate) control: Arc<Control>,
    pub(crate) client: Client,
    pub(crate) counts: Arc<NatsCounts>,
    pub(crate) mailbox: Arc<WatchedMailbox>,
    pub(crate) store: Arc<FaultyStore>,
    /// Stops the control plane when the fixture is dropped.
    _shutdown: DropGuard,
}

/// The lease of a job until it is pushed.
pub(crate) const JOB_LOCK: Duration = Duration::from_millis(1_500);

/// Short times. Silence is long compared with the heartbeats of the test workers, so that a busy machine does not lose them.
pub(crate) fn fast() -> CapSettings {
    CapSettings {
        silence: Duration::from_secs(4),
        poll: Duration::from_millis(100),
        registry_age_max: Duration::from_millis(20),
        redelivery_delay: Duration::from_millis(50),
        ..CapSettings::default()
    }
}

impl Fixture {
    pub(crate) async fn open(release: NatsRelease, settings: CapSettings) -> Self {
        Self::open_with(release, settings, Pools::default()).await
    }

    pub(crate) async fn open_with(release: NatsRelease, settings: CapSettings, pools: Pools) -> Self {
        Self::open_on(NatsOptions { release, ..NatsOptions::default() }, settings, pools).await
    }

    pub(crate) async fn open_on(nats: NatsOptions, settings: CapSettings, pools: Pools) -> Self {
        let nats = Nats::start(nats).await.unwrap();
        // Keys contain the ids of runs, which differ between tests.
        let redis = Redis::shared().await.unwrap();
        let connection = Connection::open(ConnectSettings::new(redis.url().parse().unwrap())).await.unwrap();
        let mailbox = Arc::new(WatchedMailbox {
            inner: RedisMailbox::new(connection.clone(), connection),
            readings: Mutex::default(),
            inputs_to_refuse: AtomicU32::new(0),
        });
        let bus: Arc<dyn Bus> = Arc::new(InProcessBus::default());
        let clock = Arc::new(SystemClock);
        let memory = Arc::new(memory::store(clock.clone()));
        let store = Arc::new(FaultyStore::new(memory, 7, Faults::NONE));
        let foundation = Foundation {
            store: Store::new(store.clone()),
            bus: bus.clone(),
            clock,
            identity: Identity::unpredictable(),
            instance: "i-test".parse().unwrap(),
            mailbox: Some(mailbox.clone()),
            probes: Vec::new(),
        };
        let short = Duration::from_millis(500);
        let timings = Timings { run_lease: short, job_lease: JOB_LOCK, ..Timings::default() };
        let locks = Inventory::new(timings);
        let lock_busy_tuning = Tuning { lock_ttl_ms: 500, ..Scope::LockBusy.tuning() };
        let settings_of_control =
            Settings { poll: short / 10, locks, lock_busy_tuning, pools, ..Settings::default() };
        let control = Control::new(foundation, settings_of_control);
        let shutdown = CancellationToken::new();
        tokio::spawn(run_stages(control.clone(), Roles { engine: true, scheduler: true }, shutdown.clone()));

        let client = connect(&nats.url()).await;
        let parts = Parts { control: control.clone(), bus, mailbox: mailbox.clone() };
        let edge = Edge::prepare(client.clone(), parts, settings).await.unwrap();
        let counts = edge.counts();
        tokio::spawn(edge.run(shutdown.clone()));
        Self { nats, redis, control, client, counts, mailbox, store, _shutdown: shutdown.drop_guard() }
    }

    /// Saves a workflow `flow` whose step `work` is as given and goes to [`TOPIC`].
    pub(crate) async fn save(&self, tenant: &TenantId, step: Value) {
        let mut work = json!({"type": "worker", "topic": TOPIC});
        work.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
        let document = json!({"id": "flow", "name": "flow", "steps": {"work": work}});
        self.control
            .documents
            .save_workflow(tenant, serde_json::from_value(document).unwrap())
            .await
            .unwrap();
    }

    pub(crate) async fn start(&self, tenant: &TenantId) -> RunId {
        let request = StartRequest::new(tenant.clone(), "flow".parse().unwrap(), json!({}));
        let started = self.control.admission.start(request).await.unwrap();
        let StartOutcome::Admitted { run, .. } = started else { panic!("not started: {started:?}") };
        run
    }

    pub(crate) async fn run(&self, tenant: &TenantId, run: RunId) -> Run {
        self.control.process.reader().call(ReadRun { tenant: tenant.clone(), run }).await.unwrap().unwrap()
    }

    /// The run, once it has ended.
    pub(crate) async fn ended(&self, tenant: &TenantId, run: RunId) -> Run {
        until("the run ends", async || {
            Some(self.run(tenant, run).await).filter(|run| run.head.status.is_final())
        })
        .await
    }
}

/// A client of this NATS, with the user and the password in the address.
pub(crate) async fn connect(url: &str) -> Client {
    let address: async_nats::ServerAddr = url.parse().unwrap();
    let mut options = async_nats::ConnectOptions::new();
    if let (Some(user), Some(password)) = (address.username(), address.password()) {
        options = options.user_and_password(user.to_owned(), password.to_owned());
    }
    options.connect(address).await.unwrap()
}

pub(crate) fn acme() -> TenantId {
    "acme".parse().unwrap()
}

/// The output of the step `work`.
pub(crate) fn output(run: &Run) -> Value {
    let step = &run.steps[&"work".parse().unwrap()];
    step.output.clone().unwrap_or(Value::Null)
}

/// A mailbox that records when results are read, and can refuse inputs.
pub(crate) struct WatchedMailbox {
    inner: RedisMailbox,
    readings: Mutex<Vec<Instant>>,
    inputs_to_refuse: AtomicU32,
}

impl WatchedMailbox {
    pub(crate) fn readings(&self) -> Vec<Instant> {
        self.readings.lock().unwrap().clone()
    }

    pub(crate) fn refuse_inputs(&self, number: u32) {
        self.inputs_to_refuse.store(number, Ordering::SeqCst);
    }
}

#[async_trait]
impl Mailbox for WatchedMailbox {
    async fn point(&self, run: RunId, tenant: &TenantId) -> Result<(), StoreError> {
        self.inner.point(run, tenant).await
    }

    async fn tenant_of(&self, run: RunId) -> Result<Option<TenantId>, StoreError> {
        self.inner.tenant_of(run).await
    }

    async fn put_input(&self, job: &JobId, input: &str) -> Result<String, StoreError> {
        let left = |left: u32| left.checked_sub(1);
        if self.inputs_to_refuse.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            let reason = "refused by the test".to_owned();
            return Err(StoreError::Unavailable {
                action: "store an input",
                effect: Effect::NotDone,
                reason,
            });
        }
        self.inner.put_input(job, input).await
    }

    async fn result(&self, job: &JobId, pointer: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.readings.lock().unwrap().push(Instant::now());
        self.inner.result(job, pointer).await
    }

    async fn forget(&self, run: RunId, jobs: &[JobId]) -> Result<(), StoreError> {
        self.inner.forget(run, jobs).await
    }
}
