//! The lock on a run: first among the tasks of a process, then among the replicas.

use interlock_backend::Verb as _;
use interlock_backend::runs::CancelOutcome;
use interlock_backend::verbs::{AcquireRun, Commit, ExtendRunLease, ReadRun, ReleaseRun, RequestCancel};
use std::time::Duration;

use interlock_control::Control;
use interlock_control::admission::StartRequest;
use interlock_control::service::{Roles, run_stages};
use interlock_model::RunId;
use interlock_model::admission::StartOutcome;
use interlock_model::run::RunStatus;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::scene::{Process, Scene};

/// Starts a run of one step, whose job waits for a worker.
pub(crate) async fn start_a_run(control: &Control) -> RunId {
    let (tenant, workflow) = ("acme".parse().unwrap(), "job".parse().unwrap());
    let document =
        json!({"id": "job", "name": "job", "steps": {"work": {"type": "worker", "topic": "work"}}});
    control.documents.save_workflow(&tenant, serde_json::from_value(document).unwrap()).await.unwrap();
    let start = StartRequest::new(tenant, workflow, json!({}));
    let started = control.admission.start(start).await.unwrap();
    let StartOutcome::Admitted { run, .. } = started else { panic!("not started: {started:?}") };
    run
}

pub(crate) fn engine(process: &Process) -> tokio_util::sync::DropGuard {
    let shutdown = CancellationToken::new();
    let roles = Roles { engine: true, scheduler: false };
    tokio::spawn(run_stages(process.control.clone(), roles, shutdown.clone()));
    shutdown.drop_guard()
}

async fn status(scene: &Scene, run: RunId) -> (RunStatus, u64) {
    let found = scene.store.call(ReadRun { tenant: "acme".parse().unwrap(), run }).await.unwrap().unwrap();
    (found.head.status, found.head.version)
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_lease_is_lost_is_dropped_and_its_late_commit_never_counts() {
    let scene = Scene::new();
    let (slow, other) = (scene.process(1), scene.process(2));
    let run = start_a_run(&slow.control).await;
    let (_, version) = status(&scene, run).await;
    let tenant = "acme".parse().unwrap();
    // The commit arrives after the lease has run out, and no renewal does before.
    slow.wire.slow_down(Commit::ACTION, Duration::from_secs(40));
    slow.wire.slow_down(ExtendRunLease::ACTION, Duration::from_hours(1));
    let began = Instant::now();
    let cancel = async {
        slow.control.runs.cancel(&tenant, run, "me").await.unwrap();
        began.elapsed()
    };
    let take_over = async {
        sleep(Duration::from_secs(31)).await;
        other.control.runs.cancel(&tenant, run, "me").await.unwrap();
    };
    let (dropped_after, ()) = tokio::join!(cancel, take_over);
    let trusted = scene.settings.lock_busy_tuning.lock_ttl() * 9 / 10;
    assert!(dropped_after <= trusted + scene.settings.cancel_wait, "the turn went on for {dropped_after:?}");
    assert_eq!(status(&scene, run).await, (RunStatus::Cancelled, version + 1));
    sleep(Duration::from_secs(15)).await;
    assert_eq!(slow.wire.done(Commit::ACTION).len(), 1, "what was on its way has arrived");
    assert_eq!(status(&scene, run).await, (RunStatus::Cancelled, version + 1), "and was refused");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_arrives_after_the_run_went_to_another_process_is_refused_and_counted() {
    let scene = Scene::new();
    let (slow, other) = (scene.process(1), scene.process(2));
    let run = start_a_run(&slow.control).await;
    let (_, version) = status(&scene, run).await;
    let tenant = "acme".parse().unwrap();
    // It is answered long before its process would give the turn up.
    slow.wire.slow_down(Commit::ACTION, Duration::from_secs(5));
    let cancel = async { slow.control.runs.cancel(&tenant, run, "me").await.unwrap() };
    let take_over = async {
        sleep(Duration::from_secs(1)).await;
        scene.clock_of_the_store_jumps(scene.settings.lock_busy_tuning.lock_ttl() * 2);
        other.control.runs.cancel(&tenant, run, "me").await.unwrap();
        assert_eq!(status(&scene, run).await, (RunStatus::Cancelled, version + 1));
    };
    tokio::join!(cancel, take_over);
    while slow.wire.done(Commit::ACTION).is_empty() {
        sleep(Duration::from_millis(100)).await;
    }
    let refused = |process: &Process| process.control.process.counted().commits_refused;
    assert_eq!((refused(&slow), refused(&other)), (1, 0));
    assert_eq!(status(&scene, run).await, (RunStatus::Cancelled, version + 1));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_longer_than_its_lease_keeps_the_run() {
    let scene = Scene::new();
    let (slow, other) = (scene.process(1), scene.process(2));
    let run = start_a_run(&slow.control).await;
    let tenant = "acme".parse().unwrap();
    slow.wire.slow_down(Commit::ACTION, Duration::from_secs(100));
    let _engine = engine(&other);
    let began = Instant::now();
    slow.control.runs.cancel(&tenant, run, "me").await.unwrap();
    assert_eq!(status(&scene, run).await.0, RunStatus::Cancelled);
    assert!(began.elapsed() >= Duration::from_secs(100));
    assert!(other.wire.done(Commit::ACTION).is_empty(), "no other process had the run meanwhile");
    let kept = slow.wire.done(ExtendRunLease::ACTION).len();
    assert!((9..=11).contains(&kept), "{kept} renewals in ten thirds of the lease");
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_the_usual_length_asks_the_store_for_nothing_more() {
    let scene = Scene::new();
    let process = scene.process(1);
    let run = start_a_run(&process.control).await;
    process.control.runs.cancel(&"acme".parse().unwrap(), run, "me").await.unwrap();
    assert_eq!(process.wire.done(Commit::ACTION).len(), 1);
    assert!(
        process.wire.done(ExtendRunLease::ACTION).is_empty()
            && process.wire.done(ReleaseRun::ACTION).is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn who_wants_a_run_that_its_own_process_is_at_waits_there_and_does_not_ask_the_store() {
    let scene = Scene::new();
    let process = scene.process(1);
    let run = start_a_run(&process.control).await;
    let tenant = "acme".parse().unwrap();
    process.wire.slow_down(Commit::ACTION, Duration::from_secs(2));
    let mut cancels: Vec<_> =
        (0..50).map(|_| Box::pin(process.control.runs.cancel(&tenant, run, "me"))).collect();
    for cancel in &mut cancels {
        assert!(futures_util::poll!(cancel.as_mut()).is_pending());
    }
    assert_eq!(process.wire.done(AcquireRun::ACTION).len(), 1);
    futures_util::future::try_join_all(cancels).await.unwrap();
    assert_eq!(process.wire.done(Commit::ACTION).len(), 1, "one request to cancel is enough for all");
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_a_scheduler_finds_ready_runs_at_its_own_poll() {
    let scene = Scene::new();
    let process = scene.process(1);
    let _engine = engine(&process);
    let run = start_a_run(&process.control).await;
    // The loop that looks for stuck runs ticks first, and not again for long.
    sleep(Duration::from_secs(2)).await;
    let request = RequestCancel { tenant: "acme".parse().unwrap(), run, by: "me".to_owned() };
    assert_eq!(scene.store.call(request).await.unwrap(), CancelOutcome::Posted);
    sleep(scene.settings.poll * 2).await;
    assert_eq!(status(&scene, run).await.0, RunStatus::Cancelled);
}
