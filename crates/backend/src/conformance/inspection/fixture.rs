//! A tenant with healthy rows of every kind.

use crate::Store;
use crate::children::{ChildSettled, ChildSettlement};
use crate::verbs::{
    AcquireChildStarts, AcquireRun, ListLimits, RecordResult, ReleaseLock, RequestCancel, SaveWorkflow,
    SettleChildStart,
};
use std::time::Duration;

use interlock_model::admission::StartOutcome;
use interlock_model::budget::{Period, Permit};
use interlock_model::child::NewChild;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::job::JobOutcome;
use interlock_model::lock::LockName;
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{
    BudgetName, IdempotencyKey, JobId, RunId, StepKey, TenantId, Timestamp, Topic, WorkflowId,
};
use serde_json::{Value, json};

use super::super::Subject;
use super::super::lock_requests::{ask, granted, queued_request, waiting};
use super::super::scene::{Scene, acme, claim, deploy, globex, holder, letter, name, with_request};
use super::super::slots::{queued, repo};
use super::super::spending::{self, Request, Spending};
use super::completion::turn;
use crate::deliveries::{DeferOutcome, DeferResult};
use crate::jobs::{Claim, Claimed, LeaseTerm, Report};
use crate::locks::AcquireLock;
use crate::reservations::{ReserveIdempotencyKey, Reserved};

/// How long everything lasts that is held.
pub(super) const LEASE: Duration = Duration::from_hours(1);

/// The rows that a test breaks. All runs are of one workflow and live, but for `ended`.
#[derive(Debug)]
pub struct Fixture {
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    /// By the store's clock.
    pub now: Timestamp,
    /// A job that waits for a worker.
    pub queued: JobId,
    /// A job that a worker has.
    pub leased: JobId,
    /// An open approval.
    pub asking: JobId,
    /// A run that waits for a time, with a timer.
    pub delayed: RunId,
    /// The job of a run that has ended, of the topic `ended`.
    pub ended: JobId,
    /// The key that this run was started under.
    pub key: IdempotencyKey,
    /// A key that is reserved for a start.
    pub reserved: IdempotencyKey,
    /// A run with an event in its inbox that no instance has acquired.
    pub posted: RunId,
    /// A run that an instance has acquired.
    pub held: RunId,
    /// A job whose result is deferred.
    pub kept: JobId,
    /// A lock with a holder and a waiter.
    pub lock: LockName,
    /// A run that holds the only slot of the group `api` of the limit `one`.
    pub limited: RunId,
    /// A run that holds the slot of the group `web`, for which none waits.
    pub alone: RunId,
    /// A run that waits for that of `api`, and one behind it.
    pub waiting: [RunId; 2],
    /// A run with a child that is live, and one that is to be started.
    pub parent: RunId,
    pub child: RunId,
    pub wanted: RunId,
    /// A run whose step `wait` waits for the event `paid` with the key `order/17`.
    pub awaiting: RunId,
    /// A run that waits for newer starts, in the group `calm` of the limit `quiet`.
    pub debounced: RunId,
    /// A budget with an open permit, in one window.
    pub budget: BudgetName,
    pub permit: Permit,
    /// A run that never existed.
    pub missing: RunId,
    /// An approval of the run of `ended` that was never requested.
    pub orphan: JobId,
}

/// The run that the reservation is for.
pub(super) fn reserving() -> RunId {
    RunId::new(Timestamp::from_millis(1_794_700_000_000), [7; 10])
}

pub(super) fn lock() -> LockName {
    LockName::Of(acme(), name("deploy/prod:eu%1"))
}

/// A request for the lock: the first owner has it, the second waits.
pub(super) fn asked_by(who: &str) -> AcquireLock {
    AcquireLock { ttl: LEASE, stay: Some(LEASE), ..waiting(ask(&lock(), who)) }
}

fn document(steps: &Value) -> WorkflowDocument {
    serde_json::from_value(json!({"name": "deploy", "steps": steps})).expect("the document is valid")
}

fn work(topic: &str) -> WorkflowDocument {
    document(&json!({"build": {"type": "worker", "topic": topic}}))
}

fn job_of(run: RunId, step: &str) -> JobId {
    JobId { run, step: StepKey::whole(&name(step)), attempt: 1 }
}

pub(super) fn claim_of(topic: Topic) -> Claim {
    Claim { topics: vec![topic], term: LeaseTerm::For(LEASE), ..claim(&acme(), 10) }
}

impl Fixture {
    pub(in super::super) async fn make(subject: &dyn Subject) -> Self {
        let scene = Scene::with_cap(subject, 100).await;
        scene.started(&globex()).await;
        let key: IdempotencyKey = name("order/1-of-2");
        let ended = begin(&scene, &work("ended"), Some(&key)).await;
        end(&scene, ended).await;
        let queued = begin(&scene, &work("queued"), None).await;
        let leased = begin(&scene, &work("leased"), None).await;
        claimed(&scene, "leased").await;
        let asking = begin(&scene, &document(&json!({"gate": {"type": "approval"}})), None).await;
        let pause = json!({"pause": {"type": "delay", "delay_sec": 3_600}});
        let delayed = begin(&scene, &document(&pause), None).await;
        let kept = keep(&scene).await;
        let reserved = reserve(&scene, &acme()).await;
        let posted = begin(&scene, &work("posted"), None).await;
        let held = begin(&scene, &work("held"), None).await;
        for run in [posted, held] {
            let _ = scene
                .store
                .call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() })
                .await
                .expect("the run is live");
        }
        let taken = scene
            .store
            .call(AcquireRun { tenant: acme(), run: held, holder: holder(), lease: LEASE })
            .await
            .expect("the store is up");
        let awaiting = wait_for_event(&scene).await;
        let (parent, [child, wanted]) = nest(&scene).await;
        let (limited, alone, waiting) = limit(&scene).await;
        let debounced = debounce(&scene).await;
        granted(&scene.store, &asked_by("ann")).await;
        queued_request(&scene.store, &asked_by("bob")).await;
        let spending = Spending::of(subject, spending::document("20", Period::Total)).await;
        let reserved_part = Request { ttl: LEASE, ..spending::request("fixture", "5") };
        let (permit, _) = spending.granted(&reserved_part).await;
        Self {
            tenant: acme(),
            workflow: deploy(),
            now: taken.expect("the run is ready and free").now,
            queued: job_of(queued, "build"),
            leased: job_of(leased, "build"),
            asking: job_of(asking, "gate"),
            delayed,
            ended: job_of(ended, "build"),
            key,
            reserved,
            posted,
            held,
            kept,
            lock: lock(),
            limited,
            alone,
            waiting,
            parent,
            child,
            wanted,
            awaiting,
            debounced,
            budget: spending.name(),
            permit,
            missing: RunId::new(Timestamp::from_millis(1_794_700_000_000), [9; 10]),
            orphan: job_of(ended, "gate"),
        }
    }

    /// Everything that a finding could be about.
    pub(super) fn subjects(&self) -> Vec<String> {
        let jobs = [&self.queued, &self.leased, &self.asking, &self.ended, &self.kept, &self.orphan];
        let [first, second] = self.waiting;
        let limited = [self.limited, self.alone, first, second, self.parent, self.child, self.wanted];
        let runs = [self.delayed, self.posted, self.held, self.awaiting, self.debounced, self.missing];
        let of_jobs = jobs.iter().flat_map(|job| [job.to_string(), job.run.to_string()]);
        let keys = [&self.key, &self.reserved].map(|key| format!("{}/{key}", self.workflow));
        let (lock, tenant) = (self.lock.resource().to_string(), self.tenant.to_string());
        let permit = format!("{}/{}", self.budget, self.permit.id);
        let others =
            [lock, self.budget.to_string(), permit, tenant, "one/api".to_owned(), "no such thing".to_owned()];
        let children = [self.child, self.wanted].map(|child| format!("{}/{child}", self.parent));
        let runs = runs.into_iter().chain(limited);
        let waits = [format!("{}/wait", self.awaiting), Self::entry(self.awaiting)];
        let found = of_jobs.chain(runs.map(|run| run.to_string())).chain(keys).chain(others);
        found.chain(children).chain(waits).collect()
    }

    /// The entry in the index of steps that wait for a key, if the step were one of this run.
    pub fn entry(run: RunId) -> String {
        format!("paid/order%2F17/{run}/wait")
    }

    /// A dead letter of this number, of the run that has ended.
    pub fn letter(&self, number: u32) -> DeadLetter {
        DeadLetter { buried_at: self.now, ..letter(&JobId { attempt: number + 10, ..self.ended.clone() }) }
    }
}

async fn begin(scene: &Scene, document: &WorkflowDocument, key: Option<&IdempotencyKey>) -> RunId {
    let start = scene.begun(document, json!({"n": 1})).await;
    let keyed = key.map(|key| scene.request(&acme(), Some(key.as_str()), json!({"n": 1})));
    let intent = keyed.and_then(|keyed| keyed.request.intent.clone());
    let start = with_request(start, |request| request.intent = intent);
    match scene.admit(start).await {
        StartOutcome::Admitted { run, .. } => run,
        other => panic!("expected an admission, got {other:?}"),
    }
}

async fn claimed(scene: &Scene, topic: &str) -> Claimed {
    let mut jobs = scene.store.call(claim_of(name(topic))).await.expect("the store is up");
    jobs.pop().expect("the job waits")
}

/// Does the run's one job.
async fn end(scene: &Scene, run: RunId) {
    let claimed = claimed(scene, "ended").await;
    let outcome = JobOutcome::completed(json!({}));
    let report = scene
        .store
        .call(RecordResult {
            edge: None,
            tenant: acme(),
            job: claimed.job.id.clone(),
            fence: claimed.lease.fence,
            outcome,
        })
        .await;
    assert_eq!(report, Ok(Report::Recorded));
    turn(&scene.store, scene.taken(&acme(), run).await).await;
}

/// A run with two children, of which one has started.
async fn nest(scene: &Scene) -> (RunId, [RunId; 2]) {
    let save = SaveWorkflow { tenant: acme(), id: inner(), document: work("inner") };
    scene.store.call(save).await.expect("the store is up");
    let sub = json!({"type": "subworkflow", "input": {"workflow_id": inner()}});
    let parent = begin(scene, &document(&json!({"one": sub, "two": sub})), None).await;
    turn(&scene.store, scene.taken(&acme(), parent).await).await;
    let in_progress = Duration::from_millis(1);
    let wanted = AcquireChildStarts { tenant: acme(), in_progress, limit: 10 };
    let wanted = scene.store.call(wanted).await.expect("the store is up");
    let [first, second] = &wanted[..] else { panic!("the run wants two children: {wanted:?}") };
    start_child(&scene.store, first).await;
    turn(&scene.store, scene.taken(&acme(), first.run).await).await;
    (parent, [first.run, second.run])
}

pub(super) fn inner() -> WorkflowId {
    name("inner")
}

/// Starts a child as it is wanted.
pub(super) async fn start_child(store: &Store, child: &NewChild) {
    let limits_revision = store.call(ListLimits { tenant: acme() }).await.expect("the store is up").revision;
    let settlement = ChildSettlement::Start { workflow_version: 1, limits_revision, claims: Vec::new() };
    let settle = SettleChildStart { tenant: acme(), child: child.clone(), settlement };
    let settled = store.call(settle).await.expect("the store is up");
    assert_eq!(settled, ChildSettled::Started);
}

/// Two live runs of a limit that lets one live for each repository, and two that wait for the first of them.
async fn limit(scene: &Scene) -> (RunId, RunId, [RunId; 2]) {
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"})).await;
    let save = SaveWorkflow { tenant: acme(), id: deploy(), document: work("limited") };
    let version = scene.store.call(save).await.expect("the store is up");
    let mut live = Vec::new();
    for of in ["api", "web"] {
        let arrived = scene.arrive_at(version, repo(of)).await;
        let StartOutcome::Admitted { run, .. } = arrived else { panic!("the group has room: {arrived:?}") };
        turn(&scene.store, scene.taken(&acme(), run).await).await;
        live.push(run);
    }
    let waiting = async || queued(&scene.arrive_at(version, repo("api")).await).0;
    (live[0], live[1], [waiting().await, waiting().await])
}

/// A run that waits for what is sent to a key.
async fn wait_for_event(scene: &Scene) -> RunId {
    let event = json!({"name": "paid", "key": "order/${input.n + 16}"});
    let wait = json!({"type": "wait_event", "event": event, "timeout_sec": LEASE.as_secs()});
    let run = begin(scene, &document(&json!({"wait": wait})), None).await;
    turn(&scene.store, scene.taken(&acme(), run).await).await;
    run
}

/// A run of a limit that debounces.
async fn debounce(scene: &Scene) -> RunId {
    let quiet = json!({"key": "input.repo", "on_full": "debounce", "quiet_sec": LEASE.as_secs()});
    scene.save_limit("quiet", quiet).await;
    let save = SaveWorkflow { tenant: acme(), id: deploy(), document: work("limited") };
    let version = scene.store.call(save).await.expect("the store is up");
    queued(&scene.arrive_at(version, repo("calm")).await).0
}

/// A job whose result waits for its next delivery.
async fn keep(scene: &Scene) -> JobId {
    begin(scene, &work("kept"), None).await;
    let Claimed { job, lease, .. } = claimed(scene, "kept").await;
    let kept = DeferResult {
        edge: None,
        tenant: acme(),
        job: job.id.clone(),
        fence: lease.fence,
        outcome: JobOutcome::completed(json!({})),
        deliveries: 1,
        waited: Duration::ZERO,
        delay: LEASE / 2,
        lease: LEASE,
    };
    assert_eq!(scene.store.call(kept.clone()).await, Ok(DeferOutcome::Deferred));
    job.id
}

/// A key that is reserved under the tenant's admission lock, which was released since.
pub(super) async fn reserve(scene: &Scene, tenant: &TenantId) -> IdempotencyKey {
    let lock = LockName::Admission(tenant.clone());
    let grant = granted(&scene.store, &ask(&lock, "gateway-1")).await;
    let request = scene.request(tenant, Some("reserved/1"), json!({}));
    let intent = request.request.intent.clone().expect("the request has a key");
    let key = intent.key.clone();
    let (workflow, fence) = (deploy(), grant.fence);
    let (tenant, run) = (tenant.clone(), reserving());
    let reserve = ReserveIdempotencyKey { tenant, workflow, intent, run, fence, lease: LEASE };
    let answer = scene.store.call(reserve.clone()).await.expect("the store is up");
    assert_eq!(answer, Reserved::Granted);
    let _ = scene
        .store
        .call(ReleaseLock { lock: lock.clone(), token: grant.token.clone() })
        .await
        .expect("it is held");
    key
}
