//! Cancelled at any await, a guard or a waiter leaves nothing behind but what ends by itself.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{ListLockHistory, RenewLock};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::faulty::Faults;
use interlock_backend::locks::{AcquireLock, Acquired};
use interlock_backend::{PageRequest, StoreError};
use interlock_control::locks::UserLockRequest;
use interlock_model::lock::{LockEnd, LockLimits, LockMode, LockName};
use interlock_model::{LockToken, Timestamp};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::scene::{Process, Scene, ask, term};

const CANCELLATIONS: usize = 10_000;
const AT_ONCE: usize = 250;

/// A line on which every call has several awaits, and some calls and answers are lost.
const ROUGH: Faults =
    Faults { requests_lost: 30, replies_lost: 30, delayed: 900, delay_max: Duration::from_millis(60) };

/// Polls `future` up to `polls` times and drops it, wherever it is then.
async fn cancel_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = future.as_mut().poll(context).map(Some);
        if polled.is_pending() && left == 0 { Poll::Ready(None) } else { polled }
    })
    .await
}

fn name(kind: &str, number: usize) -> LockName {
    // Some tenants, so that none has more than it may.
    let tenant = format!("t{}", number % 4).parse().unwrap();
    LockName::Of(tenant, format!("{kind}-{number}").parse().unwrap())
}

fn try_now(name: &LockName) -> AcquireLock {
    AcquireLock {
        lock: name.clone(),
        owner: "newcomer".parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl: Duration::from_secs(1),
        request: "newcomer".parse().unwrap(),
        call: "t-newcomer".parse().unwrap(),
        held: None,
        stay: None,
        limits: LockLimits::default(),
    }
}

/// Whether a new request gets the lock at once: it has no holder and no waiter.
async fn is_free(scene: &Scene, name: &LockName) -> bool {
    matches!(scene.store.call(try_now(name)).await.unwrap().answer, Acquired::Granted(_))
}

#[tokio::test(start_paused = true)]
async fn l5_after_10_000_cancelled_acquires_every_lock_comes_free_by_itself() {
    let scene = Scene::new();
    let process = scene.process(7);
    process.faulty.set_faults(ROUGH);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let ttl = Duration::from_secs(2);
    let never = CancellationToken::new();
    let (mut batches, mut cancelled, mut granted) = (0, 0, 0);
    while cancelled < CANCELLATIONS {
        // Four for each lock: some hold, some wait, all may be dropped at any moment.
        let asked = (0..AT_ONCE).map(|number| {
            let lock = name("a", batches * AT_ONCE + number / 4);
            let asked = UserLockRequest { lock, ..ask("any", &format!("w-{number}"), ttl) };
            cancel_after(random.random_range(0..8), process.control.locks.acquire(asked, &never))
        });
        for ended in join_all(asked.collect::<Vec<_>>()).await {
            cancelled += usize::from(ended.is_none());
            granted += usize::from(matches!(ended, Some(Ok(Acquired::Granted(_)))));
        }
        batches += 1;
    }
    assert!(granted > CANCELLATIONS / 20, "only {granted} were granted beside the cancelled");
    // What withdraws in the background is lost, too, now and then: time alone must do.
    sleep(ttl.max(scene.settings.lock_silence) + Duration::from_millis(500)).await;
    for batch in 0..batches {
        for number in 0..AT_ONCE / 4 {
            let name = name("a", batch * AT_ONCE + number);
            assert!(is_free(&scene, &name).await, "{name:?} is not free");
        }
    }
}

/// A lease as it was when its guard was dropped.
struct Dropped {
    name: LockName,
    token: LockToken,
    /// None: it was released, or had expired.
    expires_at: Option<Timestamp>,
    was_cancelled: bool,
}

async fn guard_and_drop(scene: &Scene, process: &Process, name: LockName, polls: usize) -> Dropped {
    let ttl = Duration::from_millis(600);
    let asked_at = Instant::now();
    let call: LockToken = format!("t-{}", name.resource().as_str()).parse().unwrap();
    let asked = AcquireLock { ttl, call: call.clone(), request: "guard".parse().unwrap(), ..try_now(&name) };
    assert!(matches!(scene.store.call(asked.clone()).await.unwrap().answer, Acquired::Granted(_)));
    let work = async {
        for _ in 0..40 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let item = process.item_lock(name.clone(), call.clone(), term(asked_at, ttl));
    let was_cancelled = cancel_after(polls, item.guard(work)).await.is_none();
    let held = scene.holder(&name).await;
    Dropped { name, token: call, expires_at: held.map(|grant| grant.expires_at), was_cancelled }
}

/// How the lease ended, and when.
async fn end_of(scene: &Scene, dropped: &Dropped) -> Result<(LockEnd, Timestamp), StoreError> {
    let page = PageRequest { limit: 10, after: None };
    let history =
        scene.store.call(ListLockHistory { lock: dropped.name.clone(), page: page.clone() }).await?.items;
    let end = history.into_iter().find(|event| event.token == dropped.token && event.end.is_some()).unwrap();
    Ok((end.end.unwrap(), end.at))
}

#[tokio::test(start_paused = true)]
async fn l4_after_10_000_dropped_guards_no_renewal_was_sent_and_every_lock_expired() {
    let scene = Scene::new();
    let process = Arc::new(scene.process(8));
    process.faulty.set_faults(ROUGH);
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let (mut batches, mut cancelled, mut renewals) = (0, 0, 0);
    while cancelled < CANCELLATIONS {
        let guards = (0..AT_ONCE).map(|number| {
            let name = name("g", batches * AT_ONCE + number);
            guard_and_drop(&scene, &process, name, random.random_range(0..60))
        });
        let dropped = join_all(guards.collect::<Vec<_>>()).await;
        renewals = process.wire.done(RenewLock::ACTION).len();
        batches += 1;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(process.wire.done(RenewLock::ACTION).len(), renewals, "a renewal outlived its guard");
        for dropped in dropped {
            cancelled += usize::from(dropped.was_cancelled);
            let (end, at) = end_of(&scene, &dropped).await.unwrap();
            // A renewal after the drop would have moved the end.
            if let Some(expires_at) = dropped.expires_at {
                assert_eq!((end, at), (LockEnd::Expired, expires_at), "{:?}", dropped.name);
            }
            assert!(is_free(&scene, &dropped.name).await, "{:?} is not free", dropped.name);
        }
    }
    assert!(renewals > CANCELLATIONS, "{renewals} renewals: guards were not dropped in the midst of them");
}
