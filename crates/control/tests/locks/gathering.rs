//! Many results on one run become few writes, and no worker waits for it.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{Commit, ReadRun, RecordResult, ReleaseRun};
use std::time::Duration;

use interlock_backend::Wake;
use interlock_backend::jobs::{Claim, Claimed, LeaseTerm, Report};
use interlock_control::Control;
use interlock_control::admission::StartRequest;
use interlock_control::service::{Roles, run_stages};
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_model::{RunId, TenantId};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::runs::engine;
use crate::scene::{Process, Scene};

const ITEMS: usize = 1_000;

fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

/// Starts a run with one job per item. The jobs exist when the engine has made its first turn.
async fn fan_out(control: &Control, items: usize, fields: Value) -> RunId {
    let mut step = json!({"type": "worker", "topic": "work", "for_each": "input.items"});
    step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let document = json!({"id": "fan", "name": "fan", "steps": {"each": step}});
    control.documents.save_workflow(&tenant(), serde_json::from_value(document).unwrap()).await.unwrap();
    let (workflow, input) = ("fan".parse().unwrap(), json!({"items": vec![0; items]}));
    let started = control.admission.start(StartRequest::new(tenant(), workflow, input)).await.unwrap();
    let StartOutcome::Admitted { run, .. } = started else { panic!("not started: {started:?}") };
    sleep(Duration::from_secs(1)).await;
    run
}

fn claim_all() -> Claim {
    Claim {
        tenant: tenant(),
        worker: "w".parse().unwrap(),
        topics: vec!["work".parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 2 * ITEMS,
        term: LeaseTerm::For(Duration::from_hours(1)),
        edge: Edge::Http,
    }
}

/// All jobs that wait.
async fn claim(scene: &Scene) -> Vec<Claimed> {
    scene.store.call(claim_all()).await.unwrap()
}

/// As any replica does it: into the store, with a wake-up for all.
async fn complete(scene: &Scene, claimed: &Claimed) {
    let outcome = JobOutcome::completed(json!({}));
    let report = scene
        .store
        .call(RecordResult {
            edge: None,
            tenant: tenant(),
            job: claimed.job.id.clone(),
            fence: claimed.lease.fence,
            outcome,
        })
        .await
        .unwrap();
    assert_eq!(report, Report::Recorded);
    interlock_backend::Bus::wake(&*scene.bus, Wake::RunReady { tenant: tenant() });
}

/// Status and version of the run.
async fn standing(scene: &Scene, run: RunId) -> (RunStatus, u64) {
    let run = scene.store.call(ReadRun { tenant: tenant(), run }).await.unwrap().unwrap();
    (run.head.status, run.head.version)
}

/// Lets every task do what takes no time.
async fn settle() {
    sleep(Duration::from_micros(100)).await;
}

fn commits(processes: &[Process]) -> usize {
    processes.iter().map(|process| process.wire.done(Commit::ACTION).len()).sum()
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_results_on_one_run_is_few_writes_of_all_replicas_together() {
    let scene = Scene::new();
    let processes = [1, 2, 3].map(|seed| scene.process(seed));
    let _engines = processes.each_ref().map(engine);
    let run = fan_out(&processes[0].control, ITEMS, json!({})).await;
    let jobs = claim(&scene).await;
    assert_eq!(jobs.len(), ITEMS);
    let before = commits(&processes);
    for job in &jobs {
        complete(&scene, job).await;
        sleep(Duration::from_millis(1)).await;
    }
    settle().await;
    assert_eq!(standing(&scene, run).await.0, RunStatus::Succeeded, "no turn waits after the last result");
    let commits = commits(&processes) - before;
    assert!(commits <= 100, "{ITEMS} results cost {commits} writes of the run");
}

#[tokio::test(start_paused = true)]
async fn a_lone_result_is_written_at_once_however_many_jobs_are_out() {
    let scene = Scene::new();
    let process = scene.process(1);
    let _engine = engine(&process);
    let run = fan_out(&process.control, ITEMS, json!({})).await;
    let jobs = claim(&scene).await;
    for job in &jobs[..3] {
        let (_, version) = standing(&scene, run).await;
        complete(&scene, job).await;
        settle().await;
        assert_eq!(standing(&scene, run).await, (RunStatus::Running, version + 1));
        sleep(scene.settings.gather_max).await;
    }
    assert!(process.wire.done(ReleaseRun::ACTION).is_empty(), "nothing was held back");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_lets_the_next_item_begin_is_never_held_back() {
    let scene = Scene::new();
    let process = scene.process(1);
    let _engine = engine(&process);
    fan_out(&process.control, 2 * ITEMS, json!({"max_parallel": ITEMS})).await;
    let jobs = claim(&scene).await;
    assert_eq!(jobs.len(), ITEMS);
    for job in &jobs[..20] {
        complete(&scene, job).await;
        settle().await;
        assert_eq!(claim(&scene).await.len(), 1, "the place is filled at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_held_back_is_cancelled_as_soon_as_its_moment_is_over() {
    let scene = Scene::new();
    let process = scene.process(1);
    let _engine = engine(&process);
    let run = fan_out(&process.control, ITEMS, json!({})).await;
    let jobs = claim(&scene).await;
    complete(&scene, &jobs[0]).await;
    settle().await;
    complete(&scene, &jobs[1]).await;
    settle().await;
    let held_back = standing(&scene, run).await;
    let began = Instant::now();
    process.control.runs.cancel(&tenant(), run, "me").await.unwrap();
    assert_eq!(
        standing(&scene, run).await,
        (RunStatus::Cancelled, held_back.1 + 1),
        "with both in one write"
    );
    assert!(began.elapsed() <= scene.settings.gather_max, "it took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stops_writes_what_it_holds_back_and_waits_for_nothing() {
    let scene = Scene::new();
    let process = scene.process(1);
    let shutdown = CancellationToken::new();
    let roles = Roles { engine: true, scheduler: false };
    let stages = tokio::spawn(run_stages(process.control.clone(), roles, shutdown.clone()));
    let run = fan_out(&process.control, ITEMS, json!({})).await;
    let jobs = claim(&scene).await;
    let (_, version) = standing(&scene, run).await;
    for job in &jobs[..2] {
        complete(&scene, job).await;
        settle().await;
    }
    assert_eq!(standing(&scene, run).await.1, version + 1, "the second is held back");
    let began = Instant::now();
    shutdown.cancel();
    stages.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(standing(&scene, run).await.1, version + 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_moment_to_wait_every_result_is_written_as_it_comes() {
    let mut scene = Scene::new();
    scene.settings.gather_max = Duration::ZERO;
    let process = scene.process(1);
    let _engine = engine(&process);
    let run = fan_out(&process.control, ITEMS, json!({})).await;
    let jobs = claim(&scene).await;
    let (_, version) = standing(&scene, run).await;
    for job in &jobs[..20] {
        complete(&scene, job).await;
        settle().await;
    }
    assert_eq!(standing(&scene, run).await.1, version + 20);
}

#[tokio::test(start_paused = true)]
async fn a_large_fan_out_is_dispatched_in_pieces_of_bounded_size() {
    let scene = Scene::new();
    let process = scene.process(1);
    let _engine = engine(&process);
    let run = fan_out(&process.control, 10_000, json!({})).await;
    let all = Claim { jobs_max: 20_000, ..claim_all() };
    assert_eq!(scene.store.call(all).await.unwrap().len(), 10_000);
    // The jobs of one commit are at most 500: see the tests of the rules.
    assert_eq!(commits(&[process]), 20);
    assert_eq!(standing(&scene, run).await, (RunStatus::Running, 20));
}
