//! Waiting for the lock, and letting go of it.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{
    AcquireLock, Admit, CountRuns, ListLockHistory, ReleaseLock, ReserveIdempotencyKey,
};
use std::time::Duration;

use interlock_backend::{Effect, PageRequest};
use interlock_control::admission::StartError;
use interlock_model::admission::StartOutcome;
use interlock_model::contention::Tuning;
use interlock_model::lock::{LockEnd, LockEvent};
use interlock_model::retry::{RetryPolicy, Seed};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::line::Fault;
use crate::scene::{Scene, TTL, gate};

const MAX_WAIT: Duration = Duration::from_secs(2);

async fn history(scene: &Scene) -> Vec<LockEvent> {
    let page = PageRequest { limit: 100, after: None };
    scene.store.call(ListLockHistory { lock: gate(), page: page.clone() }).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn tries_follow_the_policys_schedule_and_the_last_is_at_the_longest_wait() {
    for (seed, policy) in (1..).zip([
        RetryPolicy::Fixed { delay_ms: 10 },
        RetryPolicy::Fixed { delay_ms: 5_000 },
        RetryPolicy::BoundedJitter { base_ms: 100, percent: 30 },
        RetryPolicy::FullJitter { base_ms: 20, cap_ms: 500 },
        RetryPolicy::DecorrelatedJitter { base_ms: 20, cap_ms: 800 },
        RetryPolicy::Exponential { base_ms: 10, multiplier: 2.0, cap_ms: 300 },
    ]) {
        let mut scene = Scene::new(5).await;
        scene.settings.admission_tuning = Tuning { policy, ..scene.settings.admission_tuning };
        let outsider = scene.outsider(Duration::from_hours(1)).await;
        let process = scene.process(seed);
        let (run, began) = (scene.first_run(seed), Instant::now());
        let refused = process.start(Some("k"), json!({})).await;
        assert!(matches!(refused, Err(StartError::LockBusy { .. })), "{policy:?}: {refused:?}");
        assert_eq!(began.elapsed(), MAX_WAIT, "{policy:?}");
        let mut expected = vec![Duration::ZERO];
        for delay in policy.schedule(Seed::of_admission(run)) {
            let next = *expected.last().unwrap() + delay;
            expected.push(next.min(MAX_WAIT));
            if next >= MAX_WAIT {
                break;
            }
        }
        let tried: Vec<_> = process.wire.calls(AcquireLock::ACTION).iter().map(|at| *at - began).collect();
        assert_eq!(tried, expected, "{policy:?}");
        // Nothing else was tried, and the outsider was left alone.
        assert_eq!(process.wire.all().len(), expected.len() + 1, "the definition was read, and nothing else");
        assert_eq!(scene.holder().await, Some(outsider));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_comes_free_is_had_at_the_next_try() {
    let scene = Scene::new(5).await;
    let outsider = scene.outsider(Duration::from_hours(1)).await;
    let process = scene.process(1);
    let began = Instant::now();
    let free = async {
        sleep(Duration::from_millis(1_995)).await;
        let _ = scene.store.call(ReleaseLock { lock: gate(), token: outsider.token.clone() }).await.unwrap();
    };
    let (started, ()) = tokio::join!(process.start(None, json!({})), free);
    assert!(matches!(started, Ok(StartOutcome::Admitted { .. })), "{started:?}");
    assert_eq!(began.elapsed(), MAX_WAIT, "the last try is not after the longest wait, and is tried");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_lease_is_not_used() {
    let mut scene = Scene::new(5).await;
    scene.settings.admission_tuning.max_wait_ms = 30_000;
    let process = scene.process(1);
    process.wire.fault(AcquireLock::ACTION, Fault::Slow(TTL + Duration::from_millis(1)));
    let refused = process.start(None, json!({})).await;
    assert!(matches!(refused, Err(StartError::LockBusy { .. })), "{refused:?}");
    assert!(process.wire.has_answered(AcquireLock::ACTION), "the grant came");
    assert_eq!(process.wire.calls(Admit::ACTION), [], "and was not used");
}

#[tokio::test(start_paused = true)]
async fn the_lock_tells_its_holder_and_the_run_whose_schedule_it_followed() {
    let scene = Scene::new(5).await;
    let process = scene.process(7);
    let run = scene.first_run(7);
    process.wire.fault(CountRuns::ACTION, Fault::Slow(Duration::from_millis(50)));
    let look = async {
        sleep(Duration::from_millis(20)).await;
        scene.holder().await.unwrap()
    };
    let (started, held) = tokio::join!(process.start(Some("k"), json!({})), look);
    assert!(matches!(started, Ok(StartOutcome::Admitted { run: new, .. }) if new == run), "{started:?}");
    assert_eq!(held.owner.as_str(), format!("i-7/{run}"));
    assert_eq!(held.expires_at.since(held.acquired_at), TTL);
    let expected = [AcquireLock::ACTION, ReserveIdempotencyKey::ACTION, CountRuns::ACTION, Admit::ACTION];
    assert_eq!(process.wire.all()[1..5], expected);
}

#[tokio::test(start_paused = true)]
async fn the_release_runs_on_its_own_clock_and_the_client_does_not_wait_for_it() {
    let scene = Scene::new(5).await;
    let process = scene.process(1);
    process.wire.fault(ReleaseLock::ACTION, Fault::Slow(Duration::from_millis(700)));
    let began = Instant::now();
    process.started(Some("k")).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(scene.holder().await.is_some(), "it is on its way");
    sleep(Duration::from_millis(701)).await;
    assert_eq!(scene.holder().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_given_up_after_a_second_and_the_lock_ends_by_itself() {
    let scene = Scene::new(5).await;
    let process = scene.process(1);
    process.wire.fault(ReleaseLock::ACTION, Fault::Vanishes);
    let began = Instant::now();
    process.started(None).await;
    sleep(Duration::from_secs(3)).await;
    let given_up: Vec<_> = process.wire.given_up(ReleaseLock::ACTION).iter().map(|at| *at - began).collect();
    assert_eq!(given_up, [Duration::from_secs(1)]);
    sleep(TTL).await;
    assert_eq!(scene.holder().await, None);
    assert_eq!(history(&scene).await[0].end, Some(LockEnd::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_lock_is_asked_for_again_and_never_leaves_the_lock_held() {
    // Answered at the second try, it is the same hold.
    let scene = Scene::new(5).await;
    let process = scene.process(1);
    process.wire.fault(AcquireLock::ACTION, Fault::Fails(1, Effect::Unknown));
    process.started(None).await;
    sleep(Duration::from_millis(1)).await;
    let ends: Vec<_> = history(&scene).await.into_iter().map(|event| event.end).collect();
    assert_eq!(ends, [Some(LockEnd::Released), None], "one lease, released");
    // Never answered, it is withdrawn.
    let process = scene.process(2);
    process.wire.fault(AcquireLock::ACTION, Fault::Fails(1_000, Effect::Unknown));
    let refused = process.start(None, json!({})).await;
    assert!(matches!(refused, Err(StartError::LockBusy { .. })), "{refused:?}");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(history(&scene).await[0].end, Some(LockEnd::Withdrawn));
    assert_eq!(scene.holder().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_client_goes_lets_go_of_the_lock_wherever_it_was() {
    for step in [AcquireLock::ACTION, ReserveIdempotencyKey::ACTION, CountRuns::ACTION, Admit::ACTION] {
        let scene = Scene::new(5).await;
        let process = scene.process(1);
        process.wire.fault(step, Fault::Slow(Duration::from_millis(100)));
        let cut = timeout(Duration::from_millis(50), process.start(Some("k"), json!({}))).await;
        assert!(cut.is_err(), "{step}: the client went before the answer");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(scene.holder().await, None, "{step}");
        let mut other = scene.process(2);
        other.started(Some("k")).await;
        other = scene.process(3);
        assert!(matches!(other.start(Some("k"), json!({"n": 1})).await, Ok(StartOutcome::Replayed { .. })));
    }
}
