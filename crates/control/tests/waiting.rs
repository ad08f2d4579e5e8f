//! Who waits is woken, and wakes the next.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use interlock_backend::clock::{ElapsedClock, RuntimeClock};
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::verbs::ReadRun;
use interlock_backend::{Bus, InProcessBus, Store, Wake, memory};
use interlock_control::admission::StartRequest;
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles, run_stages};
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::scheduling::Edge;
use interlock_model::step::StepStatus;
use interlock_model::{Clock, RunId, TenantId, Timestamp};
use interlock_poll::until;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longer than any test: what happens sooner was caused by a wake-up.
const NEVER: Duration = Duration::from_hours(1);

struct Process {
    control: Arc<Control>,
    bus: Arc<InProcessBus>,
    _shutdown: tokio_util::sync::DropGuard,
}

/// A process on this store with a bus of its own.
fn process(store: Store, clock: RuntimeClock, seed: u64) -> Process {
    process_with(Roles { engine: true, scheduler: false }, store, clock, seed)
}

fn process_with(roles: Roles, store: Store, clock: RuntimeClock, seed: u64) -> Process {
    let bus = Arc::new(InProcessBus::default());
    let foundation = Foundation {
        store,
        bus: bus.clone(),
        clock: Arc::new(clock),
        identity: Identity::from_seed(seed),
        instance: "i-1".parse().unwrap(),
        mailbox: None,
        probes: Vec::new(),
    };
    let control =
        Control::new(foundation, Settings { claim_poll: NEVER, poll: NEVER, ..Settings::default() });
    let shutdown = CancellationToken::new();
    tokio::spawn(run_stages(control.clone(), roles, shutdown.clone()));
    Process { control, bus, _shutdown: shutdown.drop_guard() }
}

fn claim(worker: &str) -> Claim {
    Claim {
        tenant: "acme".parse().unwrap(),
        worker: worker.parse().unwrap(),
        topics: vec!["work".parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(NEVER),
        edge: Edge::Http,
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_woken_wakes_the_next_when_there_may_be_more() {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let store = Store::new(Arc::new(memory::store(Arc::new(clock))));
    let (near, far) = (process(store.clone(), clock, 1), process(store, clock, 2));
    let acme = "acme".parse().unwrap();
    let document =
        json!({"id": "job", "name": "job", "steps": {"work": {"type": "worker", "topic": "work"}}});
    far.control.documents.save_workflow(&acme, serde_json::from_value(document).unwrap()).await.unwrap();

    let began = Instant::now();
    let waiting: Vec<_> = ["one", "two", "three"]
        .map(|worker| {
            let control = near.control.clone();
            tokio::spawn(async move {
                control.results.claim(claim(worker), NEVER, &CancellationToken::new()).await.unwrap()
            })
        })
        .into();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Jobs come from elsewhere, and of all that is said about them one word arrives.
    for _ in 0..3 {
        let (tenant, workflow) = (acme.clone(), "job".parse().unwrap());
        let start = StartRequest::new(tenant, workflow, json!({}));
        assert!(matches!(far.control.admission.start(start).await.unwrap(), StartOutcome::Admitted { .. }));
    }
    near.bus.wake(Wake::JobsReady { tenant: acme.clone(), topic: "work".parse().unwrap(), jobs: 1 });
    for worker in waiting {
        assert_eq!(worker.await.unwrap().len(), 1);
    }
    assert!(began.elapsed() < Duration::from_mins(1), "a worker waited for its poll: {:?}", began.elapsed());
}

/// A process that receives no wake-ups of others, and polls every two seconds.
fn deaf(store: Store, clock: RuntimeClock, seed: u64) -> Process {
    let mut process = process(store.clone(), clock, seed);
    let foundation = Foundation {
        store,
        bus: process.bus.clone(),
        clock: Arc::new(clock),
        identity: Identity::from_seed(seed),
        instance: "i-1".parse().unwrap(),
        mailbox: None,
        probes: Vec::new(),
    };
    process.control = Control::new(foundation, Settings::default());
    let listen =
        process.control.process.wakeups().clone().listen(process.bus.clone(), CancellationToken::new());
    tokio::spawn(listen);
    process
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_not_announced_is_found_within_one_poll_and_counted_once() {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let store = Store::new(Arc::new(memory::store(Arc::new(clock))));
    let (near, far) = (deaf(store.clone(), clock, 1), process(store, clock, 2));
    let (acme, topic): (interlock_model::TenantId, interlock_model::Topic) =
        ("acme".parse().unwrap(), "work".parse().unwrap());
    let document =
        json!({"id": "job", "name": "job", "steps": {"work": {"type": "worker", "topic": "work"}}});
    far.control.documents.save_workflow(&acme, serde_json::from_value(document).unwrap()).await.unwrap();
    let start = async || {
        let start = StartRequest::new(acme.clone(), "job".parse().unwrap(), json!({}));
        assert!(matches!(far.control.admission.start(start).await.unwrap(), StartOutcome::Admitted { .. }));
    };
    for (is_announced, expected) in [(false, 1), (true, 1), (false, 2)] {
        let control = near.control.clone();
        let waiting = tokio::spawn(async move {
            control.results.claim(claim("w"), NEVER, &CancellationToken::new()).await.unwrap()
        });
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let began = Instant::now();
        start().await;
        if is_announced {
            near.bus.wake(Wake::JobsReady { tenant: acme.clone(), topic: topic.clone(), jobs: 1 });
        }
        assert_eq!(waiting.await.unwrap().len(), 1);
        assert!(began.elapsed() <= Settings::default().claim_poll);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(near.control.process.counted().orphans_replayed, expected, "announced: {is_announced}");
    }
    // A job that waited for a worker, and not for a wake-up, is no orphan.
    start().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        near.control
            .results
            .claim(claim("w"), Duration::ZERO, &CancellationToken::new())
            .await
            .unwrap()
            .len(),
        1
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(near.control.process.counted().orphans_replayed, 2);
    let waits = near.control.process.counted().job_lock_wait;
    assert_eq!(waits.count(), 4);
    assert!(waits.sum_ms() >= 10_000.0, "the last one waited for ten seconds: {}", waits.sum_ms());
}

#[tokio::test(start_paused = true)]
async fn what_is_due_soon_waits_for_no_poll() {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let store = Store::new(Arc::new(memory::store(Arc::new(clock))));
    let Process { control, _shutdown, .. } =
        process_with(Roles { engine: true, scheduler: true }, store, clock, 1);
    let acme: interlock_model::TenantId = "acme".parse().unwrap();
    let document = json!({"id": "job", "name": "job", "steps": {
        "first": {"type": "delay", "delay_sec": 0.05},
        "second": {"type": "delay", "delay_sec": 0.05, "depends_on": ["first"]},
        "work": {"type": "worker", "topic": "work", "depends_on": ["second"]},
    }});
    control.documents.save_workflow(&acme, serde_json::from_value(document).unwrap()).await.unwrap();
    // The reconcilers have made their first pass, and wait for the poll.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (tenant, workflow) = (acme.clone(), "job".parse().unwrap());
    let start = StartRequest::new(tenant, workflow, json!({}));
    assert!(matches!(control.admission.start(start).await.unwrap(), StartOutcome::Admitted { .. }));

    let now = CancellationToken::new();
    tokio::time::sleep(Duration::from_millis(140)).await;
    let short = Claim { term: LeaseTerm::For(Duration::from_millis(100)), ..claim("one") };
    assert_eq!(
        control.results.claim(short, Duration::ZERO, &now).await.unwrap().len(),
        1,
        "the delays are over"
    );
    tokio::time::sleep(Duration::from_millis(140)).await;
    let again = control.results.claim(claim("two"), Duration::ZERO, &now).await.unwrap();
    assert_eq!(again.len(), 1, "the lease has expired");
}

/// Elapsed time, beside a wall clock that a test sets.
#[derive(Debug)]
struct SetClock {
    elapsed: RuntimeClock,
    wall_lead: AtomicI64,
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        self.elapsed.now()
    }

    fn wall_lead(&self) -> i64 {
        self.wall_lead.load(Ordering::SeqCst)
    }
}

/// Runs of a workflow with one delay for half an hour and one until a time.
struct Delays {
    control: Arc<Control>,
    store: Store,
    _shutdown: tokio_util::sync::DropGuard,
}

const HALF_AN_HOUR: Duration = Duration::from_mins(30);

impl Delays {
    async fn on(store: Store, clock: Arc<dyn Clock>, poll: Duration) -> Self {
        let foundation = Foundation {
            store: store.clone(),
            bus: Arc::new(InProcessBus::default()),
            clock,
            identity: Identity::from_seed(1),
            instance: "i-1".parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(foundation, Settings { poll, ..Settings::default() });
        let shutdown = CancellationToken::new();
        tokio::spawn(run_stages(control.clone(), Roles { engine: true, scheduler: true }, shutdown.clone()));
        let steps = json!({
            "for": {"type": "delay", "delay_sec": HALF_AN_HOUR.as_secs()},
            "until": {"type": "delay", "delay_until": "${input.at}"},
        });
        let document = json!({"id": "wait", "name": "wait", "steps": steps});
        let document = serde_json::from_value(document).unwrap();
        control.documents.save_workflow(&acme(), document).await.unwrap();
        Self { control, store, _shutdown: shutdown.drop_guard() }
    }

    async fn start(&self, until: Timestamp) -> RunId {
        let (workflow, input) = ("wait".parse().unwrap(), json!({"at": until.to_string()}));
        let start = StartRequest::new(acme(), workflow, input);
        let outcome = self.control.admission.start(start).await.unwrap();
        let StartOutcome::Admitted { run, .. } = outcome else { panic!("{outcome:?}") };
        run
    }

    /// Whether the delay for half an hour has ended, and the one until a time.
    async fn ended(&self, run: RunId) -> (bool, bool) {
        let found = self.store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap();
        let ended = |key: &str| found.steps[&key.parse().unwrap()].status == StepStatus::Succeeded;
        (ended("for"), ended("until"))
    }
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_delay_until_a_time_follows_the_wall_clock_and_other_delays_do_not() {
    let elapsed = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
    let clock = Arc::new(SetClock { elapsed, wall_lead: AtomicI64::new(0) });
    let store = Store::new(Arc::new(memory::store(clock.clone())));
    let delays = Delays::on(store, clock.clone(), Duration::from_secs(2)).await;
    let near = delays.start(clock.now() + HALF_AN_HOUR).await;
    let far = delays.start(clock.now() + 3 * HALF_AN_HOUR).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((delays.ended(near).await, delays.ended(far).await), ((false, false), (false, false)));

    // An hour forward: what the wall clock has passed ends with the next poll.
    clock.wall_lead.store(3_600_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((delays.ended(near).await, delays.ended(far).await), ((false, true), (false, false)));
    // What is admitted now goes by the wall clock, too.
    let later = delays.start(clock.now() + 5 * HALF_AN_HOUR / 2).await;
    tokio::time::sleep(HALF_AN_HOUR / 2 + Duration::from_secs(10)).await;
    assert_eq!(delays.ended(later).await, (false, true));
    tokio::time::sleep(HALF_AN_HOUR).await;
    assert_eq!((delays.ended(near).await, delays.ended(far).await), ((true, true), (true, true)));

    // An hour back from what it was: dates wait for the wall clock.
    let last = delays.start(clock.now() + 3 * HALF_AN_HOUR).await;
    clock.wall_lead.store(-3_600_000, Ordering::SeqCst);
    tokio::time::sleep(4 * HALF_AN_HOUR).await;
    assert_eq!(delays.ended(last).await, (true, false));
    tokio::time::sleep(HALF_AN_HOUR + Duration::from_secs(10)).await;
    assert_eq!(delays.ended(last).await, (true, true));
}

/// A wall clock that a test sets.
#[derive(Debug)]
struct Wall(AtomicI64);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

#[tokio::test]
async fn the_embedded_store_ends_a_delay_until_a_time_when_the_wall_clock_is_set_forward() {
    let folder = tempfile::tempdir().unwrap();
    let wall = Arc::new(Wall(AtomicI64::new(1_794_700_800_000)));
    let clock = Arc::new(ElapsedClock::beginning_at(wall.clone()));
    let store = interlock_backend_embedded::open(folder.path(), clock.clone()).unwrap();
    let delays = Delays::on(Store::new(Arc::new(store)), clock, Duration::from_millis(100)).await;
    let (near, far) = (wall.now() + HALF_AN_HOUR, wall.now() + 3 * HALF_AN_HOUR);
    let (near, far) = (delays.start(near).await, delays.start(far).await);
    assert_eq!((delays.ended(near).await, delays.ended(far).await), ((false, false), (false, false)));
    wall.0.fetch_add(3_600_000, Ordering::SeqCst);
    until("the date has come", async || delays.ended(near).await == (false, true)).await;
    assert_eq!(delays.ended(far).await, (false, false));
}
