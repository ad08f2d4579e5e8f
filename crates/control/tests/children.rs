//! Child runs, with all stages of one process on a paused clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::runs::RunFilter;
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{
    ListActiveRuns, ListApprovals, ListRuns, ReadLimitUsage, ReadRun, SaveLimit, SetLimits,
};
use interlock_backend::{InProcessBus, PageRequest, Store, memory};
use interlock_control::admission::StartRequest;
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles, run_stages};
use interlock_control::{Control, Settings};
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::limit::Limits;
use interlock_model::run::{Run, RunStatus};
use interlock_model::scheduling::Edge;
use interlock_model::step::ErrorCode;
use interlock_model::{RunId, TenantId, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

struct Scene {
    control: Arc<Control>,
    store: Store,
    _ends: DropGuard,
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

impl Scene {
    /// A tenant with one slot.
    async fn new() -> Self {
        let clock = Arc::new(RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let store = Store::new(Arc::new(memory::store(clock.clone())));
        let foundation = Foundation {
            store: store.clone(),
            bus: Arc::new(InProcessBus::default()),
            clock,
            identity: Identity::from_seed(1),
            instance: "i-1".parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        // On the paused clock everything is computed in one thread.
        let control = Control::new(foundation, Settings { turn_time_max: None, ..Settings::default() });
        let shutdown = CancellationToken::new();
        let roles = Roles { engine: true, scheduler: true };
        tokio::spawn(run_stages(control.clone(), roles, shutdown.clone()));
        let limits = Limits { runs_max: Some(1), ..Limits::default() };
        let scope = LimitScope::Tenant(acme());
        store.call(SetLimits { scope, limits, keeps_quotas: false }).await.unwrap();
        Self { control, store, _ends: shutdown.drop_guard() }
    }

    async fn save(&self, id: &str, steps: Value) {
        let document = serde_json::from_value(json!({"id": id, "name": id, "steps": steps})).unwrap();
        self.control.documents.save_workflow(&acme(), document).await.unwrap();
    }

    async fn limit(&self, name: &str, document: Value) {
        let (name, document) = (name.parse().unwrap(), serde_json::from_value(document).unwrap());
        let save = SaveLimit { tenant: acme(), name, document, book: 0, replaces: None };
        let _ = self.store.call(save).await.unwrap();
    }

    async fn start(&self, workflow: &str, input: Value) -> RunId {
        let request = StartRequest::new(acme(), workflow.parse().unwrap(), input);
        let started = self.control.admission.start(request).await.unwrap();
        let StartOutcome::Admitted { run, .. } = started else { panic!("not started: {started:?}") };
        run
    }

    async fn found(&self, run: RunId) -> Run {
        self.store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap()
    }

    async fn children(&self, parent: RunId) -> Vec<(RunId, RunStatus)> {
        let filter = RunFilter { parent: Some(parent), ..RunFilter::default() };
        let list = ListRuns { tenant: acme(), filter, page: PageRequest { limit: 2_000, after: None } };
        let found = self.store.call(list).await.unwrap().items.into_iter();
        found.map(|run| (run.start.run, run.head.status)).collect()
    }

    async fn active(&self) -> usize {
        self.store.call(ListActiveRuns { tenant: acme(), limit: 1_000 }).await.unwrap().len()
    }

    async fn until<F: Future<Output = bool>>(&self, what: &str, holds: impl Fn() -> F) {
        for _ in 0..4_000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what}: it did not come to that in time");
    }

    async fn ends(&self, run: RunId) -> Run {
        self.until("the run ends", || async { self.found(run).await.head.status.is_final() }).await;
        self.found(run).await
    }

    /// Waits until the run has a child with this status.
    async fn child(&self, parent: RunId, status: RunStatus) -> RunId {
        let found = || async { self.children(parent).await.iter().any(|(_, found)| *found == status) };
        self.until(&format!("a child is {}", status.name()), found).await;
        self.children(parent).await.into_iter().find(|(_, found)| *found == status).unwrap().0
    }

    /// Completes the next job.
    async fn work(&self) {
        let claim = Claim {
            tenant: acme(),
            worker: "w".parse().unwrap(),
            topics: vec!["work".parse().unwrap()],
            capabilities: Vec::new(),
            jobs_max: 1,
            term: LeaseTerm::For(Duration::from_mins(1)),
            edge: Edge::Http,
        };
        let claimed = self.control.results.claim_now(claim).await.unwrap().pop().expect("a job waits");
        let outcome = JobOutcome::completed(json!({"ok": true}));
        self.control.results.submit(&acme(), &claimed.job.id, claimed.lease.fence, outcome).await.unwrap();
    }
}

fn subworkflow(workflow: &str, more: &Value) -> Value {
    let mut step = json!({"type": "subworkflow", "input": {"workflow_id": workflow}});
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

fn worker() -> Value {
    json!({"type": "worker", "topic": "work"})
}

#[tokio::test(start_paused = true)]
async fn a_parent_and_its_child_both_end_under_a_cap_of_one() {
    let scene = Scene::new().await;
    scene.save("inner", json!({"work": worker()})).await;
    scene.save("middle", json!({"sub": subworkflow("inner", &json!({}))})).await;
    scene.save("outer", json!({"sub": subworkflow("middle", &json!({}))})).await;
    let outer = scene.start("outer", json!({"n": 1})).await;
    let middle = scene.child(outer, RunStatus::Running).await;
    let inner = scene.child(middle, RunStatus::Running).await;
    assert_eq!(scene.active().await, 1);
    let found = scene.found(inner).await;
    assert_eq!((found.start.root(), found.start.depth(), &found.start.input), (outer, 2, &json!({"n": 1})));
    scene.work().await;
    let output = json!({"sub": {"sub": {"work": {"ok": true}}}});
    assert_eq!(scene.ends(outer).await.head.output, Some(output));
    assert_eq!(scene.active().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_ends_with_its_parent_in_whatever_state_it_is() {
    let scene = Scene::new().await;
    scene.save("held", json!({"work": worker()})).await;
    scene.save("asking", json!({"ask": {"type": "approval"}})).await;
    scene
        .limit(
            "one",
            json!({"max_runs": 1, "count": "all", "on_full": "queue", "applies_to": {"workflows": ["held"]},
        "queue": {"max_wait_sec": 3_600}}),
        )
        .await;
    let steps = json!({
        "each": subworkflow("held", &json!({"for_each": "[1, 2]"})),
        "ask": subworkflow("asking", &json!({})),
    });
    scene.save("parent", steps).await;
    let parent = scene.start("parent", json!({})).await;
    let running = scene.child(parent, RunStatus::Running).await;
    let queued = scene.child(parent, RunStatus::Queued).await;
    let waiting = scene.child(parent, RunStatus::Waiting).await;
    let why = scene.control.why.run(&acme(), parent).await.unwrap().unwrap();
    let sentences: Vec<String> = why.causes.into_iter().map(|cause| cause.sentence).collect();
    let says = |child: RunId, what: &str| {
        let of_child = sentences.iter().find(|sentence| sentence.contains(&format!("child run {child}")));
        assert!(of_child.is_some_and(|sentence| sentence.contains(what)), "{child}: {what}: {sentences:#?}");
    };
    says(running, "no online worker serves topic");
    says(queued, "which is queued");
    says(waiting, "waits for an approval");
    scene.control.runs.cancel(&acme(), parent, "ann").await.unwrap();
    for run in [parent, running, queued, waiting] {
        assert_eq!(scene.ends(run).await.head.status, RunStatus::Cancelled);
    }
    assert_eq!(scene.active().await, 0);
    let list = ListApprovals { tenant: acme(), page: PageRequest { limit: 10, after: None } };
    assert_eq!(scene.store.call(list).await.unwrap().items, []);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_children_run_in_one_slot_and_within_a_limit_that_counts_them() {
    let scene = Scene::new().await;
    scene.save("child", json!({"wait": {"type": "delay", "delay_sec": 0.05}})).await;
    scene
        .limit(
            "ten",
            json!({"max_runs": 10, "count": "all", "on_full": "queue", "applies_to": {"workflows": ["child"]},
        "queue": {"max": 2_000, "max_wait_sec": 3_600}}),
        )
        .await;
    let each = subworkflow("child", &json!({"for_each": "input.items"}));
    scene.save("parent", json!({"each": each})).await;
    let items: Vec<u32> = (0..1_000).collect();
    let parent = scene.start("parent", json!({"items": items})).await;
    let read = ReadLimitUsage { tenant: acme(), name: "ten".parse().unwrap(), group: None };
    let (mut most, mut looks) = (0, 0);
    while !scene.found(parent).await.head.status.is_final() {
        let usage = scene.store.call(read.clone()).await.unwrap();
        let live = usage.groups.first().map_or(0, |group| group.state.live);
        assert!(live <= 10 && scene.active().await == 1, "{live} children are live");
        most = most.max(live);
        looks += 1;
        assert!(looks < 100_000, "the run does not end");
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    assert_eq!(most, 10);
    let found = scene.found(parent).await;
    assert_eq!(found.head.status, RunStatus::Succeeded, "{:?}", found.head.error);
    assert_eq!(found.head.output.unwrap()["each"].as_array().unwrap().len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_cannot_start_fails_its_step_with_the_reason() {
    let scene = Scene::new().await;
    scene.save("child", json!({"work": worker()})).await;
    scene
        .limit(
            "none",
            json!({"max_runs": 0, "count": "all", "applies_to": {"workflows": ["child"]},
        "queue": {"max_wait_sec": 60}}),
        )
        .await;
    for (workflow, code, says) in [
        ("ghost", ErrorCode::WorkflowNotFound, "there is no workflow ghost"),
        ("child", ErrorCode::LimitReached, "limit `none`"),
    ] {
        scene.save("parent", json!({"sub": subworkflow(workflow, &json!({}))})).await;
        let run = scene.start("parent", json!({})).await;
        let error = scene.ends(run).await.head.error.unwrap();
        assert_eq!(error.code, code);
        assert!(error.message.contains(says), "{}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_too_long_ends_and_fails_its_step() {
    let scene = Scene::new().await;
    scene.save("child", json!({"work": worker()})).await;
    scene
        .limit(
            "none",
            json!({"max_runs": 0, "count": "all", "on_full": "queue", "applies_to": {"workflows": ["child"]},
        "queue": {"max_wait_sec": 60}}),
        )
        .await;
    scene.save("parent", json!({"sub": subworkflow("child", &json!({}))})).await;
    let parent = scene.start("parent", json!({})).await;
    let child = scene.child(parent, RunStatus::Queued).await;
    let error = scene.ends(parent).await.head.error.unwrap();
    assert_eq!(error.code, ErrorCode::ChildFailed);
    assert!(error.message.contains("queue_timeout"), "{}", error.message);
    assert_eq!(scene.found(child).await.head.error.unwrap().code, ErrorCode::QueueTimeout);
}
