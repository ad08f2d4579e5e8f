//! An answer stays true, whatever other calls of the same or other callers do.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{AcquireLock, AcquireRun, Commit, ReadLock};
use std::time::Duration;

use interlock_backend::faulty::Faults;
use interlock_backend::locks::Acquired;
use interlock_backend::{Bus as _, Effect, StoreError, Wake};
use interlock_control::locks::UserLockRequest;
use interlock_model::TenantId;
use interlock_model::lock::LockName;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::runs::start_a_run;
use crate::scene::{Scene, ask, lock};

const MINUTE: Duration = Duration::from_mins(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Two tenants (or two locks) whose clients chose the same request id.
#[tokio::test(start_paused = true)]
async fn a_request_of_the_same_name_on_another_lock_does_not_get_the_wake_up() {
    let scene = Scene::new();
    let process = scene.process(1);
    let other = |resource: &str| LockName::Of("other".parse().unwrap(), resource.parse().unwrap());
    let of_other = |owner: &str| UserLockRequest { lock: other("db"), ..ask("db", owner, MINUTE) };
    let held = process.acquire(ask("db", "holder", MINUTE)).await;
    let _other_held = process.acquire(of_other("holder")).await;
    let request = Some("job-1".parse().unwrap());
    let (a, b) = (process.control.clone(), process.control.clone());
    // The other tenant's waiter comes first.
    let thief = UserLockRequest { request: request.clone(), ..of_other("thief") };
    let thief = tokio::spawn(async move { a.locks.acquire(thief, &CancellationToken::new()).await });
    sleep(MILLISECOND).await;
    let waiter = UserLockRequest { request, ..ask("db", "waiter", MINUTE) };
    let waiter = tokio::spawn(async move {
        let got = b.locks.acquire(waiter, &CancellationToken::new()).await.unwrap();
        assert!(matches!(got, Acquired::Granted(_)));
        Instant::now()
    });
    sleep(Duration::from_millis(50)).await;
    let free_at = Instant::now();
    process.control.locks.release(&lock("db"), &held.token).await.unwrap();
    let took = waiter.await.unwrap() - free_at;
    thief.abort();
    assert!(took <= MILLISECOND, "hand-off took {took:?}");
}

/// The second in the queue becomes the first when the first is granted. The new holder dies.
#[tokio::test(start_paused = true)]
async fn the_new_first_waiter_knows_when_the_new_lease_expires() {
    let scene = Scene::new();
    let process = scene.process(1);
    let mut worst = Duration::ZERO;
    for round in 0..50 {
        let db = format!("db-{round}");
        let held = process.acquire(ask(&db, "holder", MINUTE)).await;
        let c = process.control.clone();
        let second = ask(&db, "second", Duration::from_millis(100));
        let second = tokio::spawn(async move {
            let got = c.locks.acquire(second, &CancellationToken::new()).await.unwrap();
            assert!(matches!(got, Acquired::Granted(_)));
            Instant::now()
        });
        sleep(MILLISECOND).await;
        let c = process.control.clone();
        let third = ask(&db, "third", MINUTE);
        let third = tokio::spawn(async move {
            let got = c.locks.acquire(third, &CancellationToken::new()).await.unwrap();
            assert!(matches!(got, Acquired::Granted(_)));
            Instant::now()
        });
        sleep(MILLISECOND * (2 + round * 37)).await;
        process.control.locks.release(&lock(&db), &held.token).await.unwrap();
        let ran_out = second.await.unwrap() + Duration::from_millis(100);
        let late = third.await.unwrap() - ran_out;
        worst = worst.max(late);
    }
    assert!(worst <= Duration::from_millis(2), "the line stood still for {worst:?} after the expiry");
}

/// The holder has received its grant. It re-enters by its request id, and disconnects before the answer.
#[tokio::test(start_paused = true)]
async fn a_repeat_that_disconnects_does_not_end_a_grant_that_was_answered() {
    let scene = Scene::new();
    let process = scene.process(1);
    let asked = || UserLockRequest { request: Some("job-1".parse().unwrap()), ..ask("db", "holder", MINUTE) };
    let held = process.acquire(asked()).await;
    process.wire.slow_down_both(AcquireLock::ACTION, Duration::ZERO, Duration::from_secs(1));
    let (stop, again) = (CancellationToken::new(), asked());
    let hung_up = tokio::time::timeout(MILLISECOND, process.control.locks.acquire(again, &stop)).await;
    assert!(hung_up.is_err());
    sleep(Duration::from_secs(1)).await;
    let now = scene.holder(&lock("db")).await;
    assert_eq!(now.map(|grant| grant.token), Some(held.token.clone()), "the holder still works");
}

/// The same with a wait: two calls for the same request are queued (a client that retried), and the later disconnects.
#[tokio::test(start_paused = true)]
async fn a_second_call_that_disconnects_does_not_cost_the_first_its_place() {
    let scene = Scene::new();
    let process = scene.process(1);
    let held = process.acquire(ask("db", "holder", MINUTE)).await;
    let asked = || UserLockRequest { request: Some("job-1".parse().unwrap()), ..ask("db", "first", MINUTE) };
    let c = process.control.clone();
    let first_ask = asked();
    let first = tokio::spawn(async move {
        let _ = c.locks.acquire(first_ask, &CancellationToken::new()).await.unwrap();
        Instant::now()
    });
    sleep(MILLISECOND).await;
    let c = process.control.clone();
    let second = tokio::spawn(async move {
        let _ = c.locks.acquire(ask("db", "second", MINUTE), &CancellationToken::new()).await.unwrap();
        Instant::now()
    });
    sleep(MILLISECOND).await;
    let again = asked();
    let stop = CancellationToken::new();
    let _ = tokio::time::timeout(MILLISECOND, process.control.locks.acquire(again, &stop)).await;
    sleep(MILLISECOND).await;
    process.control.locks.release(&lock("db"), &held.token).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let holder = scene.holder(&lock("db")).await.unwrap();
    first.abort();
    second.abort();
    assert_eq!(holder.owner.as_str(), "first", "it came first and is still there");
}

/// The commit was done at once; its answer takes longer than a third of the lease, when the hold on the run is renewed.
#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_slow_is_still_announced() {
    let scene = Scene::new();
    let (slow, quick) = (scene.process(1), scene.process(2));
    let run = start_a_run(&quick.control).await;
    let tenant = "acme".parse().unwrap();
    slow.wire.slow_down_both(Commit::ACTION, Duration::ZERO, Duration::from_secs(15));
    let mut heard = scene.bus.subscribe();
    slow.control.runs.cancel(&tenant, run, "me").await.unwrap();
    let mut words = Vec::new();
    while let Ok(wake) = heard.try_recv() {
        words.push(wake);
    }
    let is_announced = words.iter().any(|wake| matches!(wake, Wake::JobsRevoked { .. }));
    assert!(is_announced, "the worker of the revoked job gets no wake-up: {words:?}");
}

/// The store answers slowly (a failover): calls for one run queue up in this process, each with its own slow take.
#[tokio::test(start_paused = true)]
async fn callers_of_one_run_do_not_wait_for_each_others_slow_store() {
    let scene = Scene::new();
    let process = scene.process(1);
    let run = start_a_run(&process.control).await;
    let tenant: TenantId = "acme".parse().unwrap();
    process.wire.slow_down(AcquireRun::ACTION, Duration::from_secs(6));
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (control, tenant) = (process.control.clone(), tenant.clone());
        calls.spawn(async move {
            let _ = control.runs.cancel(&tenant, run, "me").await;
        });
    }
    calls.join_all().await;
    assert!(began.elapsed() < Duration::from_secs(20), "the last of 50 callers waited {:?}", began.elapsed());
}

/// What became of a request that got an error.
fn effect(answer: &Result<Acquired, StoreError>) -> Effect {
    let Err(StoreError::Unavailable { effect, .. }) = answer else { panic!("an answer: {answer:?}") };
    *effect
}

/// The store is reachable for the first try and not for the second; or not even for the first.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_request_that_may_be_queued_is_unknown() {
    let scene = Scene::new();
    let mut first_looks = Vec::new();
    for seed in 0..20 {
        let process = scene.process(seed);
        let (db, stop) = (format!("db-{seed}"), CancellationToken::new());
        let _held = process.acquire(ask(&db, "holder", MINUTE)).await;
        let named = |owner: &str| UserLockRequest {
            request: Some(format!("of-{owner}").parse().unwrap()),
            ..ask(&db, owner, MINUTE)
        };
        let away = async {
            sleep(MILLISECOND).await;
            process.faulty.set_faults(Faults { requests_lost: 1_000, ..Faults::NONE });
        };
        let (answer, ()) = tokio::join!(process.control.locks.acquire(named("waiter"), &stop), away);
        assert_eq!(effect(&answer), Effect::Unknown, "it was in line");
        first_looks.push(effect(&process.control.locks.acquire(named("late"), &stop).await));
    }
    assert!(first_looks.contains(&Effect::NotDone), "where it is known, it is said");
}

/// A repeat that asks for less, and whose answer is slow.
#[tokio::test(start_paused = true)]
async fn a_repeat_does_not_change_the_lease_of_an_earlier_grant() {
    let scene = Scene::new();
    let process = scene.process(1);
    let asked = |ttl| UserLockRequest { request: Some("job-1".parse().unwrap()), ..ask("db", "holder", ttl) };
    let held = process.acquire(asked(MINUTE)).await;
    process.wire.slow_down_both(AcquireLock::ACTION, Duration::ZERO, Duration::from_secs(1));
    let again = process.acquire(asked(Duration::from_millis(100))).await;
    assert_eq!((&again.token, again.fence), (&held.token, held.fence));
    assert_eq!(scene.holder(&lock("db")).await.map(|grant| grant.token), Some(held.token));
}

/// Waiters count as dead sooner than the first in the queue would poll.
#[tokio::test(start_paused = true)]
async fn every_waiter_polls_often_enough_not_to_count_as_dead() {
    let mut scene = Scene::where_turns_are_lost();
    scene.settings.lock_silence = Duration::from_millis(300);
    scene.settings.lock_poll = MINUTE;
    let process = scene.process(1);
    let held = process.acquire(ask("db", "holder", MINUTE)).await;
    let line = ["first", "second"].map(|owner| {
        let control = process.control.clone();
        tokio::spawn(async move {
            control.locks.acquire(ask("db", owner, MINUTE), &CancellationToken::new()).await
        })
    });
    for _ in 0..50 {
        sleep(Duration::from_millis(97)).await;
        let seen = scene.store.call(ReadLock { lock: lock("db") }).await.unwrap().unwrap().line;
        let owners: Vec<_> = seen.iter().map(|waiter| waiter.owner.as_str()).collect();
        assert_eq!(owners, ["first", "second"]);
    }
    process.control.locks.release(&lock("db"), &held.token).await.unwrap();
    sleep(Duration::from_millis(400)).await;
    assert_eq!(scene.holder(&lock("db")).await.unwrap().owner.as_str(), "first");
    line.iter().for_each(tokio::task::JoinHandle::abort);
}
