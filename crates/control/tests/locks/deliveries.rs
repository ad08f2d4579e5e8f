//! Results under the lock of their run: how long they wait, when they come again, and what becomes of them in the end.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::dead_letters::DeadLetterStore as _;
use interlock_backend::deliveries::DeliveryStore as _;
use interlock_backend::jobs::{Claim, Claimed, JobStore as _, LeaseTerm, Report};
use interlock_backend::runs::{RunStore as _, Taken};
use interlock_backend::{Bus as _, PageRequest, Wake};
use interlock_control::Control;
use interlock_control::admission::{StartRequest, Started};
use interlock_control::deliveries::{Delivered, Delivery};
use interlock_control::reconcile;
use interlock_control::service::{Roles, run_stages};
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
    JobOutcome::Completed { output: json!("done") }
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

/// A run of so many steps that all wait for their worker's word.
pub(crate) async fn crowded_run(scene: &Scene, control: &Control, steps: usize) -> Vec<Claimed> {
    let step = json!({"type": "worker", "topic": "work"});
    let steps: serde_json::Map<_, _> =
        (0..steps).map(|number| (format!("s{number}"), step.clone())).collect();
    let count = steps.len();
    let document = json!({"id": "crowd", "name": "crowd", "steps": steps});
    control.save_workflow(&acme(), serde_json::from_value(document).unwrap()).await.unwrap();
    let workflow = "crowd".parse().unwrap();
    let start = StartRequest { tenant: acme(), workflow, input: json!({}), key: None };
    let started = control.start(start).await.unwrap();
    assert!(matches!(started, Started::New { .. }), "{started:?}");
    let claim = Claim {
        tenant: acme(),
        worker: "w1".parse().unwrap(),
        topics: vec!["work".parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: count,
        term: LeaseTerm::For(AN_HOUR),
        edge: Edge::Http,
    };
    let mut claimed = scene.store.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), count);
    claimed.sort_by_key(|it| it.job.id.clone());
    claimed
}

/// An outsider takes the run, with the result of this job in its inbox, and does not let go.
pub(crate) async fn hold(scene: &Scene, claimed: &Claimed, lease: Duration) -> Taken {
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(scene.store.report(&acme(), job, fence, completed()).await, Ok(Report::Recorded));
    let outsider: InstanceId = "outsider".parse().unwrap();
    scene.store.take(&acme(), job.run, &outsider, lease).await.unwrap().expect("the run is free and ready")
}

fn delivery(claimed: &Claimed, attempt: u32) -> Delivery {
    Delivery {
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: completed(),
        attempt,
        waited: Duration::ZERO,
    }
}

pub(crate) async fn hand_in(
    control: &Control,
    claimed: &Claimed,
) -> Result<(), interlock_backend::StoreError> {
    control.hand_in(&acme(), &claimed.job.id, claimed.lease.fence, completed()).await
}

async fn state(scene: &Scene, claimed: &Claimed) -> JobState {
    scene.store.job(&acme(), &claimed.job.id).await.unwrap().unwrap().state
}

async fn run(scene: &Scene, id: RunId) -> Run {
    scene.store.run(&acme(), id).await.unwrap().unwrap()
}

fn stages(control: &Arc<Control>) -> DropGuard {
    let shutdown = CancellationToken::new();
    let roles = Roles { engine: true, scheduler: true };
    tokio::spawn(run_stages(control.clone(), roles, shutdown.clone()));
    shutdown.drop_guard()
}

#[tokio::test(start_paused = true)]
async fn whoever_brings_a_result_makes_the_turn_before_it_is_told_so() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 3).await;
    let id = claimed[0].job.id.run;
    let version = run(&scene, id).await.head.version;
    for (turns, result) in (1..).zip(&claimed) {
        hand_in(&process.control, result).await.unwrap();
        assert_eq!(run(&scene, id).await.head.version, version + turns, "each result is a turn of its own");
    }
    assert_eq!(run(&scene, id).await.head.status, RunStatus::Succeeded, "and nobody else was needed");
    hand_in(&process.control, &claimed[0]).await.expect("the same again is nothing new");
    let counted = process.control.contention().tally().counted().control;
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
        let delivered = process.control.deliver(&delivery(&claimed[1], attempt)).await;
        assert_eq!(delivered, Ok(Delivered::Busy));
        assert_eq!(began.elapsed(), Duration::ZERO, "whoever is delivered to by a stream does not wait");
        let delay = process.control.found_busy(&claimed[1].job.id, attempt, Duration::ZERO);
        assert_eq!(delay, Duration::from_millis(500));
    }
    assert_eq!(state(&scene, &claimed[1]).await, JobState::Running, "nothing was written");
    let counted = process.control.contention().tally().counted().control;
    assert_eq!((counted.retries, counted.busy_at_first, counted.results), (100, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn jitter_is_within_its_band_spread_and_what_the_seed_gives() {
    let policy: RetryPolicy = "bounded_jitter:500ms:30%".parse().unwrap();
    let scene = locked(with_policy(policy));
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 20).await;
    let delays: Vec<Duration> =
        claimed.iter().map(|it| process.control.found_busy(&it.job.id, 1, Duration::ZERO)).collect();
    let expected: Vec<Duration> =
        claimed.iter().map(|it| policy.delay_of(1, Seed::of_result(&it.job.id))).collect();
    assert_eq!(delays, expected);
    let millis = |delay: &Duration| delay.as_millis();
    let (low, high) = (delays.iter().map(millis).min().unwrap(), delays.iter().map(millis).max().unwrap());
    assert!(low >= 350 && high <= 650 && high - low > 150, "from {low} to {high} ms");
}

#[tokio::test(start_paused = true)]
async fn results_that_are_put_off_come_again_exactly_when_their_policy_says() {
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
        hand_in(&process.control, &claimed[1]).await.unwrap();
        let schedule: Vec<Duration> = policy.schedule(Seed::of_result(&claimed[1].job.id)).take(8).collect();
        for delay in &schedule {
            let due = scene.store.due(10).await.unwrap();
            assert_eq!((due.put_off.len(), due.next_in), (0, Some(*delay)), "{policy}");
            sleep(*delay).await;
            let report = reconcile::run_once(&process.control).await.unwrap();
            assert_eq!(report.results_delivered, 1, "{policy}");
        }
        scene.store.let_go(&acme(), held.start.run, held.fence).await.unwrap();
        let next = scene.store.due(10).await.unwrap().next_in.expect("it is put off once more");
        sleep(next).await;
        let _ = reconcile::run_once(&process.control).await.unwrap();
        assert_eq!(run(&scene, held.start.run).await.head.status, RunStatus::Succeeded, "{policy}");
        let counted = process.control.contention().tally().counted().control;
        let waited: Duration = schedule.iter().sum::<Duration>() + next;
        assert_eq!((counted.retries, counted.results), (9, 2), "{policy}");
        assert!(counted.lock_wait.sum_ms() >= waited.as_secs_f64() * 1_000.0, "counted from the first time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_came_by_itself_waits_three_seconds_and_is_then_put_off() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    hold(&scene, &claimed[0], AN_HOUR).await;
    let began = Instant::now();
    hand_in(&process.control, &claimed[1]).await.expect("the store has it");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(scene.store.due(10).await.unwrap().next_in, Some(Duration::from_millis(500)));
    let counted = process.control.contention().tally().counted().control;
    assert_eq!((counted.retries, counted.busy_at_first), (1, 1));
    sleep(Duration::from_millis(500)).await;
    let due = scene.store.take_put_off(&acme(), 10).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!((&due[0].job, due[0].deliveries), (&claimed[1].job.id, 1));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_waits_is_woken_when_its_run_changes_and_looks_by_itself_otherwise() {
    for is_told in [true, false] {
        let scene = locked(Scope::LockBusy.tuning());
        let process = scene.process(1);
        let claimed = crowded_run(&scene, &process.control, 2).await;
        let held = hold(&scene, &claimed[0], AN_HOUR).await;
        let free = async {
            // Not when the waiter would look by itself.
            sleep(Duration::from_millis(1_011)).await;
            scene.store.let_go(&acme(), held.start.run, held.fence).await.unwrap();
            if is_told {
                scene.bus.wake(Wake::RunChanged { run: held.start.run });
            }
        };
        let began = Instant::now();
        let (handed_in, ()) = tokio::join!(hand_in(&process.control, &claimed[1]), free);
        handed_in.unwrap();
        let expected = if is_told { 1_011 } else { 1_050 };
        assert_eq!(began.elapsed(), Duration::from_millis(expected), "told: {is_told}");
        assert_eq!(process.control.contention().tally().counted().control.retries, 0);
        assert_eq!(run(&scene, held.start.run).await.head.status, RunStatus::Succeeded);
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_its_own_process_at_the_run_does_not_ask_the_store() {
    let scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 20).await;
    process.wire.slow_down("commit a run", Duration::from_millis(100));
    let results: Vec<_> = claimed.iter().map(|it| delivery(it, 1)).collect();
    let answers = futures_util::future::join_all(results.iter().map(|it| process.control.deliver(it))).await;
    let busy = answers.iter().filter(|answer| **answer == Ok(Delivered::Busy)).count();
    assert_eq!((busy, process.wire.done("record a result").len()), (19, 1));
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
    hand_in(&process.control, &claimed[1]).await.unwrap();
    while state(&scene, &claimed[1]).await == JobState::Running {
        assert!(began.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "two delays lie between three deliveries");
    assert_eq!(state(&scene, &claimed[1]).await, JobState::Failed);
    let page = PageRequest { limit: 10, after: None };
    let letters = scene.store.dead_letters(&acme(), &page).await.unwrap().items;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(
        (&letter.job, letter.code, letter.attempts),
        (&claimed[1].job.id, LetterCode::ResultUnhandled, 3)
    );
    assert_eq!(letter.topic, Some("work".parse().unwrap()));
    assert_eq!(process.control.contention().tally().counted().control.retries, 2);
    assert!(scene.store.take_put_off(&acme(), 10).await.unwrap().is_empty());
    // The failure waits in the inbox, where it cannot find the run busy.
    while !run(&scene, held.start.run).await.head.status.is_final() {
        assert!(began.elapsed() < Duration::from_mins(2));
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(run(&scene, held.start.run).await.head.status, RunStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn the_second_delivery_that_finds_the_run_free_counts_as_first_retry_success() {
    let scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    let held = hold(&scene, &claimed[0], AN_HOUR).await;
    hand_in(&process.control, &claimed[1]).await.unwrap();
    scene.store.let_go(&acme(), held.start.run, held.fence).await.unwrap();
    let _stages = stages(&process.control);
    let began = Instant::now();
    while !run(&scene, held.start.run).await.head.status.is_final() {
        assert!(began.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(1)).await;
    }
    let counted = process.control.contention().tally().counted().control;
    assert_eq!((counted.retries, counted.busy_at_first, counted.first_retry_successes), (1, 1, 1));
    assert!(counted.lock_wait.quantile(1.0).unwrap() >= 500.0, "{counted:?}");
    assert!((counted.retry_delay.sum_ms() - 500.0).abs() < 0.001 && counted.result_latency.sum_ms() >= 500.0);
}

#[tokio::test(start_paused = true)]
async fn under_inbox_a_held_run_keeps_no_result_waiting_and_the_figures_are_counted_too() {
    let scene = Scene::new();
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 3).await;
    let held = hold(&scene, &claimed[0], Duration::from_secs(20)).await;
    let began = Instant::now();
    for result in &claimed[1..] {
        hand_in(&process.control, result).await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let _stages = stages(&process.control);
    while !run(&scene, held.start.run).await.head.status.is_final() {
        assert!(began.elapsed() < Duration::from_mins(1));
        sleep(Duration::from_millis(100)).await;
    }
    let counted = process.control.contention().tally().counted().control;
    assert_eq!((counted.results, counted.retries, counted.first_retry_successes), (3, 0, 0));
    assert!(counted.lock_wait.sum_ms() >= 60_000.0, "each waited until the outsider's lease had ended");
    assert_eq!(counted.result_latency.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_changed_lease_holds_for_the_next_turn() {
    let scene = locked(Tuning { lock_ttl_ms: 700, ..Scope::LockBusy.tuning() });
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    process.wire.slow_down("commit a run", AN_HOUR);
    process.wire.slow_down("keep a run", AN_HOUR);
    let first = delivery(&claimed[0], 1);
    assert_eq!(process.control.deliver(&first).await, Ok(Delivered::Recorded), "the store has the result");
    let other = scene.process(2);
    // The turn was dropped; its lease of 700 ms ends by itself.
    let began = Instant::now();
    hand_in(&other.control, &claimed[1]).await.unwrap();
    assert!(began.elapsed() <= Duration::from_millis(700), "{:?}", began.elapsed());
    assert_eq!(run(&scene, first.job.run).await.head.status, RunStatus::Succeeded);
}

/// The process dies at every passage of its line in turn: before a request reaches the store, and after it was done.
#[tokio::test(start_paused = true)]
async fn whenever_its_process_dies_a_result_is_taken_into_account_once() {
    let mut deaths = 0;
    for passages in 0.. {
        let scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
        let (mortal, heir) = (scene.process(1), scene.process(2));
        let claimed = crowded_run(&scene, &heir.control, 2).await;
        let held = hold(&scene, &claimed[0], Duration::from_secs(2)).await;
        mortal.wire.die_after(passages);
        let working = stages(&mortal.control);
        let told = tokio::spawn({
            let (control, claimed) = (mortal.control.clone(), claimed[1].clone());
            async move { hand_in(&control, &claimed).await }
        });
        // Time enough for the outsider's lease to end, and for another delivery.
        sleep(Duration::from_secs(4)).await;
        let is_dead = mortal.wire.is_dead();
        let was_told = told.is_finished();
        told.abort();
        drop(working);
        let _stages = stages(&heir.control);
        if !was_told {
            // The worker has heard nothing, and says it again, to somebody who lives.
            hand_in(&heir.control, &claimed[1]).await.unwrap();
        }
        let began = Instant::now();
        while !run(&scene, held.start.run).await.head.status.is_final() {
            assert!(
                began.elapsed() < Duration::from_mins(2),
                "dead after {passages} passages, and it is lost"
            );
            sleep(Duration::from_millis(50)).await;
        }
        let ended = run(&scene, held.start.run).await;
        assert_eq!(ended.head.status, RunStatus::Succeeded, "dead after {passages} passages");
        assert!(ended.steps.values().all(|step| step.attempts == 1 && step.output == Some(json!("done"))));
        assert!(scene.store.take_put_off(&acme(), 10).await.unwrap().is_empty());
        if !is_dead {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 16, "it died only {deaths} times");
}
