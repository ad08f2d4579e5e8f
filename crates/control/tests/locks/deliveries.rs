//! Results under the lock of their run: how long they wait, when they are delivered again, and how they end.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{
    AcquireDeferredResults, AcquireRun, Commit, FindDue, ListDeadLetters, ReadJob, ReadRun, RecordResult,
    ReleaseRun,
};
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::jobs::{Claim, Claimed, LeaseTerm, Report};
use interlock_backend::runs::AcquiredRun;
use interlock_backend::{Bus as _, PageRequest, Wake};
use interlock_control::Control;
use interlock_control::admission::StartRequest;
use interlock_control::results::{Delivered, Delivery};
use interlock_control::service::{Roles, run_stages};
use interlock_model::admission::StartOutcome;
use interlock_model::contention::{RunStrategy, Scope, Tuning};
use interlock_model::dead_letter::LetterCode;
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::retry::{RetryPolicy, Seed};
use interlock_model::run::{Run, RunStatus};
use interlock_model::scheduling::Edge;
use interlock_model::{InstanceId, RunId, TenantId};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::scene::Scene;

pub(crate) const AN_HOUR: Duration = Duration::from_hours(1);

pub(crate) fn acme() -> TenantId {
    "acme".parse().unwrap()
}

pub(crate) fn completed() -> JobOutcome {
    JobOutcome::completed(json!("done"))
}

/// Where results reach their runs under the lock.
pub(crate) fn locked(tuning: Tuning) -> Scene {
    let mut scene = Scene::new();
    scene.settings.run_strategy = RunStrategy::Lock;
    scene.settings.lock_busy_tuning = tuning;
    scene
}

pub(crate) fn with_policy(policy: RetryPolicy) -> Tuning {
    Tuning { policy, max_wait_ms: 0, ..Scope::LockBusy.tuning() }
}

/// A run with this many steps that all wait for their worker's result.
pub(crate) async fn crowded_run(scene: &Scene, control: &Control, steps: usize) -> Vec<Claimed> {
    let step = json!({"type": "worker", "topic": "work"});
    let steps: serde_json::Map<_, _> =
        (0..steps).map(|number| (format!("s{number}"), step.clone())).collect();
    let count = steps.len();
    let document = json!({"id": "crowd", "name": "crowd", "steps": steps});
    control.documents.save_workflow(&acme(), serde_json::from_value(document).unwrap()).await.unwrap();
    let workflow = "crowd".parse().unwrap();
    let start = StartRequest::new(acme(), workflow, json!({}));
    let started = control.admission.start(start).await.unwrap();
    assert!(matches!(started, StartOutcome::Admitted { .. }), "{started:?}");
    let claim = Claim {
        tenant: acme(),
        worker: "w1".parse().unwrap(),
        topics: vec!["work".parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: count,
        term: LeaseTerm::For(AN_HOUR),
        edge: Edge::Http,
    };
    let mut claimed = scene.store.call(claim).await.unwrap();
    assert_eq!(claimed.len(), count);
    claimed.sort_by_key(|it| it.job.id.clone());
    claimed
}

/// Another process acquires the run, with the result of this job in its inbox, and does not release it.
pub(crate) async fn hold(scene: &Scene, claimed: &Claimed, lease: Duration) -> AcquiredRun {
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await,
        Ok(Report::Recorded)
    );
    let outsider: InstanceId = "outsider".parse().unwrap();
    scene
        .store
        .call(AcquireRun { tenant: acme(), run: job.run, holder: outsider.clone(), lease })
        .await
        .unwrap()
        .expect("the run is free and ready")
}

pub(crate) fn delivery(claimed: &Claimed, attempt: u32) -> Delivery {
    Delivery {
        edge: None,
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: completed(),
        attempt,
        waited: Duration::ZERO,
    }
}

pub(crate) async fn submit(
    control: &Control,
    claimed: &Claimed,
) -> Result<(), interlock_backend::StoreError> {
    control.results.submit(&acme(), &claimed.job.id, claimed.lease.fence, completed()).await
}

pub(crate) async fn state(scene: &Scene, claimed: &Claimed) -> JobState {
    scene.store.call(ReadJob { tenant: acme(), job: claimed.job.id.clone() }).await.unwrap().unwrap().state
}

pub(crate) async fn run(scene: &Scene, id: RunId) -> Run {
    scene.store.call(ReadRun { tenant: acme(), run: id }).await.unwrap().unwrap()
}

pub(crate) fn stages(control: &Arc<Control>) -> DropGuard {
    let shutdown = CancellationToken::new();
    let roles = Roles { engine: true, scheduler: true };
    tokio::spawn(run_stages(control.clone(), roles, shutdown.clone()));
    shutdown.drop_guard()
}

#[tokio::test(start_paused = true)]
async fn the_delivery_of_a_result_returns_after_its_turn() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 3).await;
    let id = claimed[0].job.id.run;
    let version = run(&scene, id).await.head.version;
    for (turns, result) in (1..).zip(&claimed) {
        submit(&process.control, result).await.unwrap();
        assert_eq!(run(&scene, id).await.head.version, version + turns, "each result is a turn of its own");
    }
    assert_eq!(run(&scene, id).await.head.status, RunStatus::Succeeded, "and no other process was needed");
    submit(&process.control, &claimed[0]).await.expect("the same again is nothing new");
    let counted = process.control.contention.tally.counted().control;
    assert_eq!((counted.results, counted.retries, counted.result_latency.count()), (3, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_busy_run_asks_for_redelivery_in_exactly_five_hundred_milliseconds() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    hold(&scene, &claimed[0], AN_HOUR).await;
    for attempt in 1..=100 {
        let began = Instant::now();
        let delivered = process.control.results.deliver(&delivery(&claimed[1], attempt)).await;
        assert_eq!(delivered, Ok(Delivered::Busy));
        assert_eq!(began.elapsed(), Duration::ZERO, "a delivery from a stream does not wait");
        let delay = process.control.results.count_busy(&claimed[1].job.id, attempt, Duration::ZERO);
        assert_eq!(delay, Some(Duration::from_millis(500)));
    }
    assert_eq!(state(&scene, &claimed[1]).await, JobState::Running, "nothing was written");
    let counted = process.control.contention.tally.counted().control;
    assert_eq!((counted.retries, counted.busy_at_first, counted.results), (100, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn jitter_is_within_its_band_spread_and_what_the_seed_gives() {
    let policy: RetryPolicy = "bounded_jitter:500ms:30%".parse().unwrap();
    let scene = locked(with_policy(policy));
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 20).await;
    let delays: Vec<Duration> = claimed
        .iter()
        .map(|it| process.control.results.count_busy(&it.job.id, 1, Duration::ZERO).unwrap())
        .collect();
    let expected: Vec<Duration> =
        claimed.iter().map(|it| policy.delay_of(1, Seed::of_result(&it.job.id))).collect();
    assert_eq!(delays, expected);
    let millis = |delay: &Duration| delay.as_millis();
    let (low, high) = (delays.iter().map(millis).min().unwrap(), delays.iter().map(millis).max().unwrap());
    assert!(low >= 350 && high <= 650 && high - low > 150, "from {low} to {high} ms");
}

#[tokio::test(start_paused = true)]
async fn deferred_results_are_delivered_again_exactly_when_their_policy_says() {
    for policy in [
        "fixed:500ms",
        "bounded_jitter:500ms:30%",
        "equal_jitter:100ms:2s",
        "decorrelated_jitter:100ms:2s",
        "exponential:100ms:2:2s",
    ] {
        let policy: RetryPolicy = policy.parse().unwrap();
        let scene = locked(with_policy(policy));
        let process = scene.process(1);
        let claimed = crowded_run(&scene, &process.control, 2).await;
        let held = hold(&scene, &claimed[0], AN_HOUR).await;
        submit(&process.control, &claimed[1]).await.unwrap();
        let schedule: Vec<Duration> = policy.schedule(Seed::of_result(&claimed[1].job.id)).take(8).collect();
        for delay in &schedule {
            let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
            assert_eq!((due.deferred.len(), due.next_in), (0, Some(*delay)), "{policy}");
            sleep(*delay).await;
            let report = process.control.reconcilers.run_once().await.unwrap();
            assert_eq!(report.results_delivered, 1, "{policy}");
        }
        scene
            .store
            .call(ReleaseRun { tenant: acme(), run: held.start.run, fence: held.fence })
            .await
            .unwrap();
        let next =
            scene.store.call(FindDue { limit: 10 }).await.unwrap().next_in.expect("it is put off once more");
        sleep(next).await;
        let _ = process.control.reconcilers.run_once().await.unwrap();
        assert_eq!(run(&scene, held.start.run).await.head.status, RunStatus::Succeeded, "{policy}");
        let counted = process.control.contention.tally.counted().control;
        let waited: Duration = schedule.iter().sum::<Duration>() + next;
        assert_eq!((counted.retries, counted.results), (9, 2), "{policy}");
        assert!(counted.lock_wait.sum_ms() >= waited.as_secs_f64() * 1_000.0, "counted from the first time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_submitted_result_waits_three_seconds_and_is_then_deferred() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    hold(&scene, &claimed[0], AN_HOUR).await;
    let began = Instant::now();
    submit(&process.control, &claimed[1]).await.expect("the store has it");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(
        scene.store.call(FindDue { limit: 10 }).await.unwrap().next_in,
        Some(Duration::from_millis(500))
    );
    let counted = process.control.contention.tally.counted().control;
    assert_eq!((counted.retries, counted.busy_at_first), (1, 1));
    sleep(Duration::from_millis(500)).await;
    let due = scene.store.call(AcquireDeferredResults { tenant: acme(), limit: 10 }).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!((&due[0].job, due[0].deliveries), (&claimed[1].job.id, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_result_is_woken_when_its_run_changes_and_polls_otherwise() {
    for is_announced in [true, false] {
        let scene = locked(Scope::LockBusy.tuning());
        let process = scene.process(1);
        let claimed = crowded_run(&scene, &process.control, 2).await;
        let held = hold(&scene, &claimed[0], AN_HOUR).await;
        let free = async {
            // Not when the waiter would poll.
            sleep(Duration::from_millis(1_011)).await;
            scene
                .store
                .call(ReleaseRun { tenant: acme(), run: held.start.run, fence: held.fence })
                .await
                .unwrap();
            if is_announced {
                scene.bus.wake(Wake::RunChanged { run: held.start.run });
            }
        };
        let began = Instant::now();
        let (handed_in, ()) = tokio::join!(submit(&process.control, &claimed[1]), free);
        handed_in.unwrap();
        let expected = if is_announced { 1_011 } else { 1_050 };
        assert_eq!(began.elapsed(), Duration::from_millis(expected), "announced: {is_announced}");
        assert_eq!(process.control.contention.tally.counted().control.retries, 0);
        assert_eq!(run(&scene, held.start.run).await.head.status, RunStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_finds_its_own_process_at_the_run_does_not_call_the_store() {
    let scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 20).await;
    process.wire.slow_down(Commit::ACTION, Duration::from_millis(100));
    let results: Vec<_> = claimed.iter().map(|it| delivery(it, 1)).collect();
    let answers =
        futures_util::future::join_all(results.iter().map(|it| process.control.results.deliver(it))).await;
    let busy = answers.iter().filter(|answer| **answer == Ok(Delivered::Busy)).count();
    assert_eq!((busy, process.wire.done(RecordResult::ACTION).len()), (19, 1));
}

#[tokio::test(start_paused = true)]
async fn after_the_last_delivery_the_result_is_a_dead_letter_and_its_job_fails() {
    let mut scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
    scene.settings.deliveries_max = 3;
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    let held = hold(&scene, &claimed[0], Duration::from_mins(1)).await;
    let began = Instant::now();
    let _stages = stages(&process.control);
    submit(&process.control, &claimed[1]).await.unwrap();
    while state(&scene, &claimed[1]).await == JobState::Running {
        assert!(began.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "two delays lie between three deliveries");
    assert_eq!(state(&scene, &claimed[1]).await, JobState::Failed);
    let page = PageRequest { limit: 10, after: None };
    let letters =
        scene.store.call(ListDeadLetters { tenant: acme(), page: page.clone() }).await.unwrap().items;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(
        (&letter.job, letter.code, letter.attempts),
        (&claimed[1].job.id, LetterCode::ResultUnhandled, 3)
    );
    assert_eq!(letter.topic, Some("work".parse().unwrap()));
    assert_eq!(process.control.contention.tally.counted().control.retries, 2);
    assert!(scene.store.call(AcquireDeferredResults { tenant: acme(), limit: 10 }).await.unwrap().is_empty());
    // The failure waits in the inbox, where it cannot find the run busy.
    while !run(&scene, held.start.run).await.head.status.is_final() {
        assert!(began.elapsed() < Duration::from_mins(2));
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(run(&scene, held.start.run).await.head.status, RunStatus::Failed);
}
