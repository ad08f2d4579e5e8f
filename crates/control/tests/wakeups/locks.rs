//! A lock that comes free: the first in its queue is woken, and no other.

use std::time::Duration;

use interlock_backend::Wake;
use interlock_backend::locks::{Acquired, ForceReleaseLock};
use interlock_control::locks::UserLockRequest;
use interlock_model::lock::{Grant, LockMode, LockName};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::scene::{AN_HOUR, Scene};

fn door() -> LockName {
    LockName::Of("acme".parse().unwrap(), "door".parse().unwrap())
}

fn ask(owner: &str, mode: LockMode, wait: Duration) -> UserLockRequest {
    UserLockRequest {
        lock: door(),
        owner: owner.parse().unwrap(),
        mode,
        ttl: AN_HOUR,
        wait,
        request: Some(owner.parse().unwrap()),
        held: None,
    }
}

async fn hold(scene: &Scene, owner: &str, mode: LockMode) -> Grant {
    let asked = ask(owner, mode, Duration::ZERO);
    let acquired = scene.control.locks.acquire(asked, &CancellationToken::new()).await.unwrap();
    let Acquired::Granted(grant) = acquired else { panic!("not granted: {acquired:?}") };
    grant
}

/// Waits in the queue, until it is aborted.
async fn wait(scene: &Scene, owner: &str, mode: LockMode) -> JoinHandle<()> {
    let (locks, asked) = (scene.control.locks.clone(), ask(owner, mode, AN_HOUR));
    let waiting = tokio::spawn(async move {
        let _ = locks.acquire(asked, &CancellationToken::new()).await.unwrap();
    });
    sleep(Duration::from_millis(1)).await;
    waiting
}

fn turn_of(owner: &str) -> Wake {
    Wake::LockTurn { lock: door(), request: owner.parse().unwrap() }
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_wakes_the_first_waiter_and_no_other() {
    let scene = Scene::new();
    let held = hold(&scene, "ann", LockMode::Exclusive).await;
    let _waiting =
        [wait(&scene, "bob", LockMode::Exclusive).await, wait(&scene, "cid", LockMode::Exclusive).await];
    assert_eq!(scene.woken(), []);
    scene.control.locks.release(&door(), &held.token).await.unwrap();
    assert_eq!(scene.woken(), [turn_of("bob")]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_no_one_waits_for_wakes_no_one() {
    let scene = Scene::new();
    let held = hold(&scene, "ann", LockMode::Exclusive).await;
    scene.control.locks.renew(&door(), &held.token, AN_HOUR).await.unwrap();
    scene.control.locks.release(&door(), &held.token).await.unwrap();
    assert_eq!(scene.woken(), []);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_an_operator_releases_wakes_the_first_waiter() {
    let scene = Scene::new();
    let held = hold(&scene, "ann", LockMode::Exclusive).await;
    let _waiting = wait(&scene, "bob", LockMode::Exclusive).await;
    let forced = ForceReleaseLock {
        lock: door(),
        expected: held.token,
        by: "op".to_owned(),
        reason: "stuck".to_owned(),
    };
    scene.control.locks.force_release(&forced).await.unwrap();
    assert_eq!(scene.woken(), [turn_of("bob")]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_passes_the_turn_on() {
    let scene = Scene::new();
    let _held = hold(&scene, "ann", LockMode::Shared).await;
    let writer = wait(&scene, "bob", LockMode::Exclusive).await;
    let _reader = wait(&scene, "cid", LockMode::Shared).await;
    assert_eq!(scene.woken(), []);
    writer.abort();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(scene.woken(), [turn_of("cid")], "only the writer was in its way");
}

#[tokio::test(start_paused = true)]
async fn one_who_shares_a_lock_passes_the_turn_on_to_the_next() {
    let scene = Scene::new();
    let held = hold(&scene, "ann", LockMode::Exclusive).await;
    let readers = [wait(&scene, "bob", LockMode::Shared).await, wait(&scene, "cid", LockMode::Shared).await];
    scene.control.locks.release(&door(), &held.token).await.unwrap();
    assert_eq!(scene.woken(), [turn_of("bob")]);
    // No wake-up is delivered here: the first reader polls.
    sleep(scene.control.process.settings().lock_poll).await;
    assert!(readers[0].is_finished());
    assert_eq!(scene.woken(), [turn_of("cid")]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_the_first_waiter_gone_passes_the_turn_on() {
    let scene = Scene::new();
    let held = hold(&scene, "ann", LockMode::Shared).await;
    let settings = scene.control.process.settings().clone();
    let gone = interlock_backend::locks::AcquireLock {
        lock: door(),
        owner: "gone".parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl: AN_HOUR,
        request: "gone".parse().unwrap(),
        call: "t-gone".parse().unwrap(),
        held: None,
        stay: Some(Duration::from_millis(10)),
        limits: settings.lock_limits,
    };
    assert!(matches!(scene.store.call(gone).await.unwrap().answer, Acquired::Waiting(_)));
    let _reader = wait(&scene, "cid", LockMode::Shared).await;
    scene.control.locks.renew(&door(), &held.token, AN_HOUR).await.unwrap();
    assert_eq!(scene.woken(), [], "the writer may still come");
    sleep(Duration::from_millis(10)).await;
    scene.control.locks.renew(&door(), &held.token, AN_HOUR).await.unwrap();
    assert_eq!(scene.woken(), [turn_of("cid")]);
}
