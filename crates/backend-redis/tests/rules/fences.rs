//! Fences, when the store comes back as another one.

use interlock_backend::verbs::{ReadRegistry, ReleaseLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use interlock_model::lock::{LockName, StageLock};
use interlock_model::{Clock, Timestamp};
use interlock_poll::until;
use interlock_servers::Sentinel;

use super::asking::{ask, door, granted};
use super::{claim, open_on, server, started};

/// A clock that a test sets, also back.
#[derive(Debug)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_fence_never_goes_back_when_the_store_comes_back_empty_and_its_clock_too_early() {
    let mut server = server().await;
    let clock = Arc::new(SetClock(AtomicU64::new(1_794_700_800_000)));
    let store = open_on(&server.url(), "instance-1", clock.clone()).await;
    started(&store, 1, true).await;
    let before = claim(&store, "worker-1").await.pop().unwrap().lease.fence;

    server.kill().await.unwrap();
    server.start_again().await.unwrap();
    assert_eq!(
        server.command(&["EXISTS", "wf:tenant:{acme}"]).await.unwrap(),
        "0",
        "it has forgotten everything"
    );
    clock.0.store(1_794_700_000_000, Ordering::SeqCst);
    until("the store answers again", async || store.call(ReadRegistry).await.is_ok()).await;

    started(&store, 2, true).await;
    let after = claim(&store, "worker-1").await.pop().unwrap().lease.fence;
    assert!(after > before, "{after} is not above {before}");
}

const STAGE: LockName = LockName::Stage(StageLock::Reconciler);

#[tokio::test]
async fn l9_a_locks_fence_does_not_go_back_when_the_store_comes_back_empty_and_its_clock_too_early() {
    let mut server = server().await;
    let clock = Arc::new(SetClock(AtomicU64::new(1_794_700_800_000)));
    let store = open_on(&server.url(), "instance-1", clock.clone()).await;
    let stage = granted(&store, &ask(&STAGE, "replica-1")).await;
    let user = granted(&store, &ask(&door(), "ann")).await;

    server.kill().await.unwrap();
    server.start_again().await.unwrap();
    clock.0.store(1_794_700_000_000, Ordering::SeqCst);
    until("the store answers again", async || store.call(ReadRegistry).await.is_ok()).await;

    for (lock, before) in [(STAGE, stage), (door(), user)] {
        let after = granted(&store, &ask(&lock, "successor")).await;
        assert!(after.fence > before.fence, "{after:?} is not above {before:?}");
    }
}

#[tokio::test]
async fn l9_a_fence_does_not_go_back_after_a_failover_to_a_replica_that_has_not_heard_of_it() {
    let mut sentinel = Sentinel::start().await.unwrap();
    // A clock that stands still: nothing but what the process has seen can carry the next fence past the lost one.
    let clock = Arc::new(SetClock(AtomicU64::new(1_794_700_800_000)));
    let store = open_on(&sentinel.url(), "instance-1", clock).await;
    let first = granted(&store, &ask(&STAGE, "replica-1")).await;
    let _ = store.call(ReleaseLock { lock: STAGE.clone(), token: first.token.clone() }).await.unwrap();
    sentinel.cut_replication().await.unwrap();
    let stage = granted(&store, &ask(&STAGE, "replica-2")).await;
    let user = granted(&store, &ask(&door(), "ann")).await;

    sentinel.primary().kill().await.unwrap();
    sentinel.wait_for_failover().await.unwrap();
    until("the successor is used", async || store.call(ReadRegistry).await.is_ok()).await;
    for (lock, before) in [(STAGE, stage), (door(), user)] {
        let after = granted(&store, &ask(&lock, "successor")).await;
        assert!(after.fence > before.fence, "{after:?} is not above {before:?}");
    }
}
