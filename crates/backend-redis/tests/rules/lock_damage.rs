//! Foreign data under the names of a lock: never a grant, and no trouble for other locks.

use interlock_backend::verbs::ReleaseLock;
use std::sync::Arc;

use interlock_backend::clock::ManualClock;
use interlock_backend::locks::Acquired;
use interlock_backend::{Store, StoreError};
use interlock_model::Timestamp;
use interlock_model::lock::LockName;
use interlock_servers::Redis;

use super::asking::{ask, granted, waiting};
use super::{LEASE, acme, name, open, open_on, server};

fn vault() -> LockName {
    LockName::Of(acme(), name("vault"))
}

/// Ways to spoil a lock that ann holds and bob waits for.
const DAMAGES: [&[&str]; 9] = [
    &["SET", "wf:lock:{acme}:vault", "garbage"],
    &["HSET", "wf:lock:{acme}:vault", "fence", "garbage"],
    &["HSET", "wf:lock:{acme}:vault", "h:call-of-ann", "garbage"],
    &["HSET", "wf:lock:{acme}:vault", "h:call-of-ann", "{}"],
    &["DEL", "wf:lock:{acme}:vault"],
    &["SET", "wf:lock:order:{acme}:vault", "garbage"],
    &["SET", "wf:lock:ends:{acme}:vault", "garbage"],
    &["SET", "wf:lock:line:{acme}:vault", "garbage"],
    &["SET", "wf:lock:silences:{acme}:vault", "garbage"],
];

async fn spoil(server: &Redis, store: &Store, damage: &[&str]) {
    server.command(&["FLUSHALL"]).await.unwrap();
    granted(store, &ask(&vault(), "ann")).await;
    let _ = store.call(waiting(&vault(), "bob")).await.unwrap();
    server.command(damage).await.unwrap();
}

#[tokio::test]
async fn a_damaged_lock_is_reported_and_not_granted() {
    let server = server().await;
    let store = open(&server.url()).await;
    for damage in DAMAGES {
        spoil(&server, &store, damage).await;
        for who in ["bob", "cid"] {
            let answer = store.call(waiting(&vault(), who)).await;
            assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{damage:?} {who}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_free_lock_with_a_damaged_history_is_not_granted_until_it_is_repaired() {
    let server = server().await;
    let store = open(&server.url()).await;
    let held = granted(&store, &ask(&vault(), "ann")).await;
    let _ = store.call(ReleaseLock { lock: vault(), token: held.token.clone() }).await.unwrap();
    server.command(&["SET", "wf:lock:history:{acme}:vault", "garbage"]).await.unwrap();
    let answer = store.call(ask(&vault(), "bob")).await;
    assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{answer:?}");
    server.command(&["DEL", "wf:lock:history:{acme}:vault"]).await.unwrap();
    let bob = granted(&store, &ask(&vault(), "bob")).await;
    assert!(bob.fence > held.fence);
}

#[tokio::test]
async fn a_damaged_lock_does_not_block_the_tenants_other_locks() {
    let server = server().await;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let store = open_on(&server.url(), "instance-1", clock.clone()).await;
    for damage in DAMAGES {
        spoil(&server, &store, damage).await;
        // From now on a request for another lock finds it among those that have expired.
        clock.advance(LEASE);
        let other = LockName::Of(acme(), name("other"));
        let answer = store.call(ask(&other, "cid")).await.unwrap().answer;
        assert!(matches!(answer, Acquired::Granted(_)), "{damage:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_lock_that_redis_has_no_room_for_is_certainly_not_granted() {
    let server = server().await;
    let store = open(&server.url()).await;
    granted(&store, &ask(&vault(), "ann")).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1000000"]).await.unwrap();
    let other = LockName::Of(acme(), name("other"));
    let answer = store.call(ask(&other, "ann")).await;
    let full = interlock_backend::Effect::StorageFull;
    assert!(matches!(&answer, Err(StoreError::Unavailable { effect, .. }) if *effect == full), "{answer:?}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    granted(&store, &ask(&other, "ann")).await;
}
