//! Turns that deliveries bring about.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{AcquireDeferredResults, Commit, ExtendRunLease, ReleaseRun};
use std::time::Duration;

use interlock_control::results::Delivered;
use interlock_model::contention::{Scope, Tuning};
use interlock_model::retry::RetryPolicy;
use interlock_model::run::RunStatus;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::deliveries::{
    AN_HOUR, acme, crowded_run, delivery, hold, locked, run, stages, submit, with_policy,
};
use crate::scene::Scene;

#[tokio::test(start_paused = true)]
async fn the_second_delivery_that_finds_the_run_free_counts_as_first_retry_success() {
    let scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    let held = hold(&scene, &claimed[0], AN_HOUR).await;
    submit(&process.control, &claimed[1]).await.unwrap();
    scene.store.call(ReleaseRun { tenant: acme(), run: held.start.run, fence: held.fence }).await.unwrap();
    let _stages = stages(&process.control);
    let began = Instant::now();
    while !run(&scene, held.start.run).await.head.status.is_final() {
        assert!(began.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(1)).await;
    }
    let counted = process.control.contention.tally.counted().control;
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
        submit(&process.control, result).await.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let _stages = stages(&process.control);
    while !run(&scene, held.start.run).await.head.status.is_final() {
        assert!(began.elapsed() < Duration::from_mins(1));
        sleep(Duration::from_millis(100)).await;
    }
    let counted = process.control.contention.tally.counted().control;
    assert_eq!((counted.results, counted.retries, counted.first_retry_successes), (3, 0, 0));
    assert!(counted.lock_wait.sum_ms() >= 60_000.0, "each waited until the outsider's lease had ended");
    assert_eq!(counted.result_latency.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_changed_lease_holds_for_the_next_turn() {
    let scene = locked(Tuning { lock_ttl_ms: 700, ..Scope::LockBusy.tuning() });
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    process.wire.slow_down(Commit::ACTION, AN_HOUR);
    process.wire.slow_down(ExtendRunLease::ACTION, AN_HOUR);
    let first = delivery(&claimed[0], 1);
    assert_eq!(
        process.control.results.deliver(&first).await,
        Ok(Delivered::Recorded),
        "the store has the result"
    );
    let other = scene.process(2);
    // The turn was dropped; its lease of 700 ms ends by itself.
    let began = Instant::now();
    submit(&other.control, &claimed[1]).await.unwrap();
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
        let delivering = tokio::spawn({
            let (control, claimed) = (mortal.control.clone(), claimed[1].clone());
            async move { submit(&control, &claimed).await }
        });
        // Time enough for the outsider's lease to end, and for another delivery.
        sleep(Duration::from_secs(4)).await;
        let is_dead = mortal.wire.is_dead();
        let was_answered = delivering.is_finished();
        delivering.abort();
        drop(working);
        let _stages = stages(&heir.control);
        if !was_answered {
            // The worker got no answer, and repeats the report to a live process.
            submit(&heir.control, &claimed[1]).await.unwrap();
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
        assert!(
            scene.store.call(AcquireDeferredResults { tenant: acme(), limit: 10 }).await.unwrap().is_empty()
        );
        if !is_dead {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 16, "it died only {deaths} times");
}
