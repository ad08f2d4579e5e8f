//! A call about a lock whose reply was lost is asked again, and has happened once.

use interlock_backend::verbs::{AcquireRun, ExtendRunLease, ReadLock, ReleaseLock, RenewLock, WithdrawLock};
use std::time::Duration;

use interlock_backend::locks::{Acquired, Busy, ForceReleaseLock};
use interlock_backend::{Effect, Store, StoreError};
use interlock_model::lock::LockEnd;

use interlock_poll::until;

use super::asking::{ask, door, granted, history, refused, waiting};
use super::lost_replies::{Scene, hang};
use super::{LEASE, acme, name, open, open_impatient, server, started};

/// How the holds of the door ended, the newest first.
async fn ends(store: &Store) -> Vec<Option<LockEnd>> {
    history(store, &door()).await.into_iter().map(|event| event.end).collect()
}

#[tokio::test]
async fn a_grant_whose_reply_was_lost_is_the_same_grant() {
    let scene = Scene::new().await;
    scene.lose_reply_to("call-of-ann");
    let held = granted(&scene.store, &ask(&door(), "ann")).await;
    assert_eq!(refused(&scene.store, &ask(&door(), "bob")).await.holder, Some(name("ann")));
    assert_eq!(ends(&scene.store).await, [None], "it was granted once");
    assert_eq!(store_fence(&scene).await, held.fence);
}

async fn store_fence(scene: &Scene) -> interlock_model::Fence {
    scene.store.call(ReadLock { lock: door() }).await.unwrap().unwrap().view.holders[0].fence
}

#[tokio::test]
async fn a_place_in_line_whose_reply_was_lost_is_one_place() {
    let scene = Scene::new().await;
    granted(&scene.store, &ask(&door(), "ann")).await;
    scene.lose_reply_to("call-of-bob");
    let bob = scene.store.call(waiting(&door(), "bob")).await.unwrap().answer;
    assert!(matches!(bob, Acquired::Waiting(Busy { position: 1, .. })), "{bob:?}");
    let cid = scene.store.call(waiting(&door(), "cid")).await.unwrap().answer;
    assert!(matches!(cid, Acquired::Waiting(Busy { position: 2, .. })), "{cid:?}");
}

#[tokio::test]
async fn l16_a_renewal_whose_reply_was_lost_is_neither_a_loss_nor_a_new_hold() {
    let scene = Scene::new().await;
    let held = granted(&scene.store, &ask(&door(), "ann")).await;
    scene.lose_reply_to("call-of-ann");
    let renewed = scene
        .store
        .call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE * 2 })
        .await
        .unwrap()
        .answer;
    assert_eq!((renewed.fence, &renewed.token), (held.fence, &held.token));
    assert!(renewed.expires_at > held.expires_at);
    assert_eq!(ends(&scene.store).await, [None]);
}

#[tokio::test]
async fn l19_a_release_whose_reply_was_lost_is_done_once_and_wakes_the_next() {
    let scene = Scene::new().await;
    let held = granted(&scene.store, &ask(&door(), "ann")).await;
    let _ = scene.store.call(waiting(&door(), "bob")).await.unwrap();
    scene.lose_reply_to("call-of-ann");
    let released = scene.store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await.unwrap();
    assert_eq!(released.next, Some(name("request-of-bob")));
    assert_eq!(ends(&scene.store).await, [Some(LockEnd::Released), None]);
    let bob = granted(&scene.store, &waiting(&door(), "bob")).await;
    assert!(
        scene.store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await.is_ok(),
        "and may be said again"
    );
    assert_eq!(store_fence(&scene).await, bob.fence, "it ends no other lease");
}

#[tokio::test]
async fn a_withdrawal_whose_reply_was_lost_ends_an_unseen_grant() {
    let scene = Scene::new().await;
    let held = granted(&scene.store, &ask(&door(), "ann")).await;
    let _ = scene.store.call(waiting(&door(), "bob")).await.unwrap();
    scene.lose_reply_to("call-of-ann");
    let withdrawn = scene
        .store
        .call(WithdrawLock { lock: door(), request: held.request.clone(), call: held.call.clone() })
        .await
        .unwrap();
    assert_eq!(withdrawn.next, Some(name("request-of-bob")));
    assert_eq!(ends(&scene.store).await, [Some(LockEnd::Withdrawn), None]);
}

#[tokio::test]
async fn a_forced_release_whose_reply_was_lost_stands_in_the_history_once() {
    let scene = Scene::new().await;
    let held = granted(&scene.store, &ask(&door(), "ann")).await;
    let (by, reason) = ("on call".to_owned(), "it hangs / since 2:17 \"again\"".to_owned());
    let forced =
        ForceReleaseLock { lock: door(), expected: held.token, by: by.clone(), reason: reason.clone() };
    scene.lose_reply_to("on call");
    assert!(scene.store.call(forced.clone()).await.is_ok());
    assert_eq!(ends(&scene.store).await, [Some(LockEnd::ForceReleased { by, reason }), None]);
}

#[tokio::test]
async fn a_kept_run_whose_reply_was_lost_is_kept() {
    let scene = Scene::new().await;
    let run = started(&scene.store, 1, false).await;
    let taken = scene
        .store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-7"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    scene.lose_reply_to(&run.to_string());
    assert_eq!(
        scene.store.call(ExtendRunLease { tenant: acme(), run, fence: taken.fence, lease: LEASE }).await,
        Ok(())
    );
}

#[tokio::test]
async fn l12_a_renewal_that_got_no_answer_is_unknown_and_ends_nothing() {
    let server = server().await;
    let (store, other) = (open_impatient(&server.url()).await, open(&server.url()).await);
    let held = granted(&store, &ask(&door(), "ann")).await;
    let _ = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await.unwrap();
    hang(&server, async {
        let lost = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await;
        assert!(matches!(lost, Err(StoreError::Unavailable { effect: Effect::Unknown, .. })), "{lost:?}");
    })
    .await;
    assert_eq!(refused(&other, &ask(&door(), "bob")).await.holder, Some(name("ann")));
    until("it is renewed again", async || {
        store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await.is_ok()
    })
    .await;
    assert_eq!(ends(&store).await, [None]);
}

#[tokio::test]
async fn l16_a_hold_whose_renewal_was_refused_is_over_and_not_unknown() {
    let server = server().await;
    let store = open(&server.url()).await;
    let short =
        interlock_backend::locks::AcquireLock { ttl: Duration::from_millis(1), ..ask(&door(), "ann") };
    let held = granted(&store, &short).await;
    until("it has expired", async || store.call(ReadLock { lock: door() }).await.unwrap().is_none()).await;
    let late = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: held.fence, current: held.fence }));
}
