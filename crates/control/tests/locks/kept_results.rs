//! An acknowledged result is kept: it counts however slow its run is, from its arrival on.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{ExtendJobLease, FindDue, ReadDeadLetter, ReadRun};
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::jobs::LeaseTerm;
use interlock_control::Control;
use interlock_control::identity::Identity;
use interlock_control::reconcile;
use interlock_control::service::Foundation;
use interlock_model::Timestamp;
use interlock_model::contention::Scope;
use interlock_model::retry::RetryPolicy;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::deliveries::{AN_HOUR, acme, completed, crowded_run, hold, locked, submit, with_policy};
use crate::runs::engine;
use crate::scene::Scene;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_result_that_came_in_time_is_not_refused_because_its_run_was_busy_for_longer_than_its_lease() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    hold(&scene, &claimed[0], 4 * SECOND).await;
    let (job, fence) = (&claimed[1].job.id, claimed[1].lease.fence);
    let short = scene
        .store
        .call(ExtendJobLease {
            tenant: acme(),
            job: job.clone(),
            fence,
            term: Some(LeaseTerm::For(2 * SECOND)),
        })
        .await;
    assert!(short.is_ok(), "{short:?}");
    tokio::spawn(reconcile::run(process.control.reconcilers.clone(), CancellationToken::new()));
    let began = Instant::now();
    assert_eq!(submit(&process.control, &claimed[1]).await, Ok(()));
    assert_eq!(began.elapsed(), 3 * SECOND, "it waited for as long as it may, and was put off");
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_result_counts_from_its_arrival() {
    let scene = locked(Scope::LockBusy.tuning());
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    hold(&scene, &claimed[0], Duration::from_millis(3_200)).await;
    submit(&process.control, &claimed[1]).await.unwrap();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(process.control.reconcilers.run_once().await.unwrap().results_delivered, 1);
    let counted = process.control.contention.tally.counted().control;
    assert_eq!((counted.results, counted.lock_wait.sum_ms().round()), (2, 7_000.0), "both came 3.5 s ago");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_keeps_the_result_of_the_worker() {
    let mut scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 500 }));
    scene.settings.deliveries_max = 2;
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 2).await;
    hold(&scene, &claimed[0], AN_HOUR).await;
    submit(&process.control, &claimed[1]).await.unwrap();
    sleep(SECOND).await;
    process.control.reconcilers.run_once().await.unwrap();
    let letter = scene
        .store
        .call(ReadDeadLetter { tenant: acme(), job: claimed[1].job.id.clone() })
        .await
        .unwrap()
        .unwrap();
    assert_eq!((letter.attempts, letter.result), (2, Some(completed())));
}

#[tokio::test(start_paused = true)]
async fn deferred_results_cost_no_read_before_they_are_due() {
    let mut scene = locked(with_policy(RetryPolicy::Fixed { delay_ms: 30_000 }));
    scene.settings.poll = AN_HOUR;
    let process = scene.process(1);
    let claimed = crowded_run(&scene, &process.control, 12).await;
    hold(&scene, &claimed[0], AN_HOUR).await;
    tokio::spawn(reconcile::run(process.control.reconcilers.clone(), CancellationToken::new()));
    sleep(SECOND).await;
    let looks = || process.wire.done(FindDue::ACTION).len();
    let before = looks();
    for result in &claimed[1..] {
        submit(&process.control, result).await.unwrap();
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(looks(), before, "nothing is due");
    sleep(30 * SECOND).await;
    assert!(looks() > before);
}

/// The replica that starts the run is five seconds ahead of the store.
#[tokio::test(start_paused = true)]
async fn results_are_written_although_the_clock_of_who_started_the_run_is_ahead() {
    let scene = Scene::new();
    let process = scene.process(1);
    let foundation = Foundation {
        store: interlock_backend::Store::new(process.faulty.clone()),
        bus: scene.bus.clone(),
        clock: Arc::new(RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_805_000))),
        identity: Identity::from_seed(9),
        instance: "ahead".parse().unwrap(),
        mailbox: None,
        probes: Vec::new(),
    };
    let ahead = Control::new(foundation, scene.settings.clone());
    let _engine = engine(&process);
    let claimed = crowded_run(&scene, &ahead, 16).await;
    let (job, fence) = (&claimed[0].job.id, claimed[0].lease.fence);
    let version = async || {
        scene.store.call(ReadRun { tenant: acme(), run: job.run }).await.unwrap().unwrap().head.version
    };
    let before = version().await;
    sleep(Duration::from_millis(200)).await;
    let _ = process.control.results.report(&acme(), job, (fence, None), completed()).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert!(version().await > before, "a result waits no longer than the longest gathering");
}
