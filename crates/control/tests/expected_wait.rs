//! The wait that an answer to a queued start expects, beside the wait that follows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::SetLimits;
use interlock_backend::{InProcessBus, Store, memory};
use interlock_control::admission::StartRequest;
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles, run_stages};
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::limit::Limits;
use interlock_model::limit::document::OnFull;
use interlock_model::scheduling::Edge;
use interlock_model::{Clock as _, RunId, TenantId, Timestamp};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Until then, too few runs have ended to say how long one takes.
const WARM_UP: Duration = Duration::from_mins(1);

/// When the first job of each run was claimed.
type Claims = Arc<Mutex<BTreeMap<RunId, Timestamp>>>;

struct Tenant {
    control: Arc<Control>,
    clock: RuntimeClock,
    claims: Claims,
    _shutdown: DropGuard,
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

impl Tenant {
    /// With this number of slots, and as many workers, each busy with a job for as long as the job says.
    async fn with_slots(slots: u32) -> Self {
        let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
        let foundation = Foundation {
            store: Store::new(Arc::new(memory::store(Arc::new(clock)))),
            bus: Arc::new(InProcessBus::default()),
            clock: Arc::new(clock),
            identity: Identity::from_seed(1),
            instance: "i-1".parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(foundation, Settings::default());
        let shutdown = CancellationToken::new();
        tokio::spawn(run_stages(control.clone(), Roles { engine: true, scheduler: true }, shutdown.clone()));
        let document = json!({"id": "job", "name": "job", "steps": {
            "work": {"type": "worker", "topic": "work", "input": {"ms": "${input.ms}"}},
        }});
        control.documents.save_workflow(&acme(), serde_json::from_value(document).unwrap()).await.unwrap();
        let limits = Limits {
            runs_max: Some(slots),
            on_full: Some(OnFull::Queue),
            queued_max: Some(10_000),
            ..Limits::default()
        };
        let scope = LimitScope::Tenant(acme());
        control.documents.set_limits(SetLimits { scope, limits, keeps_quotas: false }).await.unwrap();
        let claims = Claims::default();
        for worker in 0..slots {
            tokio::spawn(work(control.clone(), clock, format!("w-{worker}"), claims.clone()));
        }
        Self { control, clock, claims, _shutdown: shutdown.drop_guard() }
    }

    /// Starts a run that works for this time. Returns what its answer expects, if it waits.
    async fn start(&self, work: u64) -> Option<Waiting> {
        let start = StartRequest::new(acme(), "job".parse().unwrap(), json!({"ms": work}));
        let began = self.clock.now();
        match self.control.admission.start(start).await.unwrap() {
            StartOutcome::Admitted { .. } => None,
            StartOutcome::Queued { run, position, blocked, .. } => {
                let position = position.unwrap();
                Some(Waiting { run, began, position, expected: blocked.expected_wait(position, began) })
            }
            StartOutcome::Replayed { .. }
            | StartOutcome::KeyReused { .. }
            | StartOutcome::Joined { .. }
            | StartOutcome::LimitReached { .. }
            | StartOutcome::QueueFull { .. }
            | StartOutcome::LimitsChanged { .. }
            | StartOutcome::AtCapacity { .. }
            | StartOutcome::DefinitionChanged { .. } => panic!("a tenant without other limits lets it wait"),
        }
    }

    fn wait_of(&self, waiting: &Waiting) -> Duration {
        self.claims.lock().unwrap()[&waiting.run].since(waiting.began)
    }
}

async fn work(control: Arc<Control>, clock: RuntimeClock, worker: String, claims: Claims) {
    loop {
        let claim = Claim {
            tenant: acme(),
            worker: worker.parse().unwrap(),
            topics: vec!["work".parse().unwrap()],
            capabilities: Vec::new(),
            jobs_max: 1,
            term: LeaseTerm::For(Duration::from_hours(1)),
            edge: Edge::Http,
        };
        let forever = CancellationToken::new();
        for claimed in control.results.claim(claim, Duration::from_mins(10), &forever).await.unwrap() {
            let job = claimed.job;
            claims.lock().unwrap().insert(job.id.run, clock.now());
            tokio::time::sleep(Duration::from_millis(job.input["ms"].as_u64().unwrap())).await;
            let done = JobOutcome::completed(json!({}));
            control.results.submit(&acme(), &job.id, claimed.lease.fence, done).await.unwrap();
        }
    }
}

struct Waiting {
    run: RunId,
    began: Timestamp,
    position: u64,
    expected: Option<Duration>,
}

/// Numbers that look random, and are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Starts bursts of runs for a while. Every wait that was expected from this position on is within a factor of two.
async fn every_expectation_is_right(slots: u32, from: u64, work: fn(&mut Numbers) -> u64) {
    let (tenant, mut numbers) = (Tenant::with_slots(slots).await, Numbers(7));
    let mut all = Vec::new();
    for _ in 0..12 {
        for _ in 0..numbers.below(u64::from(slots) * 15) + 30 {
            all.extend(tenant.start(work(&mut numbers)).await);
        }
        tokio::time::sleep(Duration::from_millis(numbers.below(60_000))).await;
    }
    // The clock of the test runs ahead by itself: nothing waits for real.
    let last = all.last().unwrap().run;
    while !tenant.claims.lock().unwrap().contains_key(&last) {
        assert!(
            tenant.clock.now().since(all[0].began) < Duration::from_hours(24),
            "the last run never began"
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
    }

    let warm_from = all[0].began + WARM_UP;
    let mut checked = 0;
    for waiting in all.iter().filter(|it| it.position >= from && it.began >= warm_from) {
        let Some(expected) = waiting.expected else { continue };
        let measured = tenant.wait_of(waiting);
        checked += 1;
        assert!(
            expected <= measured * 2 && measured <= expected * 2,
            "position {}: expected {expected:?}, measured {measured:?} ({slots} slots)",
            waiting.position
        );
    }
    assert!(checked > 100, "{checked} of {} waits were expected", all.len());
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_as_long_as_expected_if_all_runs_take_the_same_time() {
    for slots in [1, 5, 50] {
        every_expectation_is_right(slots, u64::from(slots) * 2, |_| 10_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_as_long_as_expected_if_some_runs_are_long_and_most_are_short() {
    for slots in [2, 10] {
        // Among fewer runs, one long one more or less doubles the time.
        let from = u64::from(slots) * 3 + 40;
        let work = |numbers: &mut Numbers| if numbers.below(4) == 0 { 5_000 } else { 500 };
        every_expectation_is_right(slots, from, work).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_as_long_as_expected_after_idle_hours() {
    let tenant = Tenant::with_slots(1).await;
    for round in 0..3 {
        let mut all = Vec::new();
        for _ in 0..20 {
            all.extend(tenant.start(5_000).await);
        }
        tokio::time::sleep(Duration::from_hours(3)).await;
        for waiting in &all {
            let (expected, measured) = (waiting.expected, tenant.wait_of(waiting));
            match expected {
                None => assert_eq!(round, 0, "nothing has ended yet"),
                Some(expected) => {
                    assert!(expected <= measured * 2 && measured <= expected * 2, "{expected:?}");
                }
            }
        }
    }
}
