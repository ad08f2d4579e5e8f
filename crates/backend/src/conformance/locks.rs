//! Locks: one holder at a time or sharers only, and a fence that only grows.

use crate::verbs::{
    ListLockHistory, ListLocks, ReadLock, ReadSnapshot, ReleaseLock, RenewLock, SaveSnapshot,
};
use std::time::Duration;

use interlock_model::lock::{LockEnd, LockEvent, LockMode, LockName, StageLock};
use interlock_model::{Fence, LockToken};

use super::Subject;
use super::lock_requests::{
    SILENCE, TTL, acquire, ask, door, granted, history, queued_request, refused, shared, waiting, whose,
};
use super::scene::{acme, globex, name};
use crate::locks::{AcquireLock, Acquired, ForceReleaseLock, Turn};
use crate::{PageRequest, StoreError};

pub async fn a_free_lock_is_granted_to_one_owner(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    assert_eq!(ann.token, name::<LockToken>("call-of-ann"));
    assert_eq!(ann.expires_at, ann.acquired_at + TTL);
    subject.elapse(Duration::from_millis(100)).await;
    let busy = refused(&store, &ask(&door(), "bob")).await;
    assert_eq!(busy.holder, Some(name("ann")));
    assert!(busy.held_for >= Duration::from_millis(100), "{busy:?}");
    assert_eq!((busy.position, busy.is_line_full), (1, false));
    // Locks are per tenant and per name.
    granted(&store, &ask(&LockName::Of(globex(), name("deploy/prod:eu%1")), "bob")).await;
    granted(&store, &ask(&LockName::Of(acme(), name("deploy")), "bob")).await;
}

pub async fn the_same_request_gives_the_same_grant_and_the_owners_name_does_not(subject: &mut dyn Subject) {
    let store = subject.store();
    let first = granted(&store, &ask(&door(), "ann")).await;
    let again = AcquireLock { call: name("another-call"), ..ask(&door(), "ann") };
    let second = granted(&store, &again).await;
    assert_eq!((&second.token, second.fence), (&first.token, first.fence));
    assert_eq!(second.expires_at, first.expires_at);
    let other_request = AcquireLock { request: name("other"), ..again.clone() };
    assert_eq!(refused(&store, &other_request).await.holder, Some(name("ann")));
    let other_mode = AcquireLock { mode: LockMode::Shared, ..again };
    assert!(matches!(store.call(other_mode.clone()).await, Err(StoreError::Conflict(_))));
    assert_eq!(history(&store, &door()).await.len(), 1, "it was granted once");
}

pub async fn the_token_re_enters_under_the_same_fence_and_a_stale_one_does_not(subject: &mut dyn Subject) {
    let store = subject.store();
    let held = granted(&store, &ask(&door(), "ann")).await;
    subject.elapse(Duration::from_millis(100)).await;
    let inner = AcquireLock { held: Some(held.token.clone()), request: name("inner"), ..ask(&door(), "ann") };
    let inner = granted(&store, &AcquireLock { call: name("inner-call"), ..inner }).await;
    assert_eq!((&inner.token, inner.fence), (&held.token, held.fence));
    assert!(inner.expires_at > held.expires_at, "re-entering is another word from the holder");
    let upgrade = AcquireLock { held: Some(held.token.clone()), ..shared(&door(), "ann") };
    assert!(matches!(store.call(upgrade.clone()).await, Err(StoreError::Conflict(_))), "not in silence");
    let stranger = AcquireLock { held: Some(name("guessed")), ..ask(&door(), "ann") };
    let refused = store.call(stranger.clone()).await;
    assert!(
        matches!(refused, Err(StoreError::Fenced { current, .. }) if current == held.fence),
        "{refused:?}"
    );
}

pub async fn fences_of_a_lock_only_grow(subject: &mut dyn Subject) {
    let store = subject.store();
    let mut last = Fence::NONE;
    for round in 0..4 {
        let held = granted(&store, &ask(&door(), &format!("holder-{round}"))).await;
        assert!(held.fence > last, "{held:?} after {last}");
        last = held.fence;
        if round == 1 {
            subject.elapse(TTL).await;
        } else {
            let _ = store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await.unwrap();
        }
    }
    drop(store);
    subject.reopen().await;
    let held = granted(&subject.store(), &ask(&door(), "late")).await;
    assert!(held.fence > last, "also after a reopening");
}

pub async fn a_renewal_extends_from_now_and_cannot_revive(subject: &mut dyn Subject) {
    let store = subject.store();
    let held = granted(&store, &ask(&door(), "ann")).await;
    subject.elapse(Duration::from_millis(300)).await;
    let renewed =
        store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: TTL }).await.unwrap().answer;
    assert_eq!((renewed.fence, &renewed.token), (held.fence, &held.token));
    assert_eq!(renewed.expires_at, held.expires_at + Duration::from_millis(300));
    subject.elapse(Duration::from_millis(399)).await;
    assert!(
        store
            .call(RenewLock { lock: door(), token: held.token.clone(), ttl: Duration::from_millis(10) })
            .await
            .is_ok()
    );
    subject.elapse(Duration::from_millis(10)).await;
    // No other owner has acquired it, and still the lease has ended: the former holder may already know.
    let late = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: TTL }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: held.fence, current: held.fence }));
    let next = granted(&store, &ask(&door(), "bob")).await;
    let late = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: TTL }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: held.fence, current: next.fence }));
}

pub async fn a_release_may_be_repeated(subject: &mut dyn Subject) {
    let store = subject.store();
    let held = granted(&store, &ask(&door(), "ann")).await;
    let unknown = store.call(ReleaseLock { lock: door(), token: name("guessed") }).await;
    assert!(matches!(unknown, Err(StoreError::Fenced { .. })), "{unknown:?}");
    let nothing = store
        .call(ReleaseLock { lock: LockName::Of(acme(), name("never")), token: held.token.clone() })
        .await;
    assert!(matches!(nothing, Err(StoreError::NotFound { .. })), "{nothing:?}");
    for _ in 0..2 {
        assert_eq!(
            store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await,
            Ok(Turn { answer: (), next: None })
        );
    }
    let next = granted(&store, &ask(&door(), "bob")).await;
    assert!(
        store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await.is_ok(),
        "it was released, even if another owner holds it now"
    );
    assert_eq!(refused(&store, &ask(&door(), "cid")).await.holder, Some(name("bob")));
    subject.elapse(TTL).await;
    let late = store.call(ReleaseLock { lock: door(), token: next.token.clone() }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: next.fence, current: next.fence }), "it expired before");
}

pub async fn sharers_hold_together_and_exclude_the_others(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &shared(&door(), "ann")).await;
    let bob = granted(&store, &shared(&door(), "bob")).await;
    assert!(bob.fence > ann.fence, "each lease has a fence of its own");
    refused(&store, &ask(&door(), "cid")).await;
    let detail = store.call(ReadLock { lock: door() }).await.unwrap().unwrap();
    let owners: Vec<_> = detail.view.holders.iter().map(|grant| grant.owner.to_string()).collect();
    assert_eq!(owners, ["ann", "bob"]);
    let _ = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    refused(&store, &ask(&door(), "cid")).await;
    let _ = store.call(ReleaseLock { lock: door(), token: bob.token.clone() }).await.unwrap();
    granted(&store, &ask(&door(), "cid")).await;
    refused(&store, &shared(&door(), "ann")).await;
}

pub async fn an_operator_ends_the_lease_of_the_expected_token_and_no_other(subject: &mut dyn Subject) {
    let store = subject.store();
    let held = granted(&store, &ask(&door(), "ann")).await;
    let forced = |expected: &LockToken| ForceReleaseLock {
        lock: door(),
        expected: expected.clone(),
        by: "on call \"ops\"".to_owned(),
        reason: "stuck since 2:17\nafter all".to_owned(),
    };
    let moved = store.call(forced(&name("guessed"))).await;
    assert!(matches!(moved, Err(StoreError::Fenced { .. })), "{moved:?}");
    queued_request(&store, &waiting(ask(&door(), "bob"))).await;
    assert_eq!(store.call(forced(&held.token)).await.unwrap().next, Some(whose("bob")));
    assert!(store.call(forced(&held.token)).await.is_ok(), "the answer may have been lost");
    let other_words = ForceReleaseLock { reason: "again".to_owned(), ..forced(&held.token) };
    assert!(store.call(other_words.clone()).await.is_ok(), "it was ended by force");
    let late = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: TTL }).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    let late = store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    let bob = granted(&store, &waiting(ask(&door(), "bob"))).await;
    let moved = store.call(forced(&name("guessed"))).await;
    let none = Fence::NONE;
    assert_eq!(moved, Err(StoreError::Fenced { held: none, current: bob.fence }));
    let end = LockEnd::ForceReleased {
        by: "on call \"ops\"".to_owned(),
        reason: "stuck since 2:17\nafter all".to_owned(),
    };
    assert_eq!(history(&store, &door()).await[1].end, Some(end));
}

pub async fn the_history_has_every_lease_and_its_end(subject: &mut dyn Subject) {
    let store = subject.store();
    let odd = AcquireLock { owner: name("ann \"Ü\" \\ / 5"), ..ask(&door(), "ann") };
    let ann = granted(&store, &odd).await;
    subject.elapse(Duration::from_millis(50)).await;
    let _ = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    let bob = granted(&store, &ask(&door(), "bob")).await;
    subject.elapse(TTL * 2).await;
    // No call has touched it since, and still it has ended.
    let events = history(&store, &door()).await;
    let expected = [
        LockEvent::ended(&bob, LockEnd::Expired, bob.expires_at),
        LockEvent::granted(&bob),
        LockEvent::ended(&ann, LockEnd::Released, ann.acquired_at + Duration::from_millis(50)),
        LockEvent::granted(&ann),
    ];
    assert_eq!(events, expected);
    granted(&store, &ask(&door(), "cid")).await;
    let page = PageRequest { limit: 2, after: None };
    let first = store.call(ListLockHistory { lock: door(), page: page.clone() }).await.unwrap();
    let second = PageRequest { after: first.next.clone(), ..page };
    let second = store.call(ListLockHistory { lock: door(), page: second.clone() }).await.unwrap();
    assert_eq!(first.items[1..], expected[..1]);
    assert_eq!(second.items, expected[1..3]);
    drop(store);
    subject.reopen().await;
    assert_eq!(history(&subject.store(), &door()).await[1..], expected);
}

pub async fn held_locks_are_listed_newest_first_page_by_page(subject: &mut dyn Subject) {
    let store = subject.store();
    let mut locks = Vec::new();
    for number in 0..5 {
        let lock = LockName::Of(acme(), name(&format!("a/b{number}")));
        locks.push((lock.clone(), granted(&store, &ask(&lock, "ann")).await));
        subject.elapse(Duration::from_millis(10)).await;
    }
    granted(&store, &ask(&LockName::Of(globex(), name("theirs")), "eve")).await;
    queued_request(&store, &waiting(ask(&locks[4].0, "bob"))).await;
    let _ =
        store.call(ReleaseLock { lock: locks[2].0.clone(), token: locks[2].1.token.clone() }).await.unwrap();
    let mut page = PageRequest { limit: 3, after: None };
    let first = store.call(ListLocks { tenant: acme(), page: page.clone() }).await.unwrap();
    let shown: Vec<_> = first.items.iter().map(|view| (view.resource.as_str(), view.waiting)).collect();
    assert_eq!(shown, [("a/b4", 1), ("a/b3", 0), ("a/b1", 0)]);
    assert_eq!(first.items[0].holders, [locks[4].1.clone()]);
    page.after = first.next;
    let second = store.call(ListLocks { tenant: acme(), page: page.clone() }).await.unwrap();
    assert_eq!((second.items[0].resource.as_str(), second.items.len()), ("a/b0", 1));
    assert_eq!(second.next, None);
    subject.elapse(TTL).await;
    let page = PageRequest { limit: 3, after: None };
    assert_eq!(
        store.call(ListLocks { tenant: acme(), page: page.clone() }).await.unwrap().items,
        [],
        "an expired lease is not held"
    );
    assert_eq!(store.call(ReadLock { lock: locks[0].0.clone() }).await.unwrap(), None);
}

pub async fn a_lock_is_shown_with_its_queue(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let bob = waiting(shared(&door(), "bob"));
    queued_request(&store, &bob).await;
    subject.elapse(Duration::from_millis(5)).await;
    queued_request(&store, &waiting(ask(&door(), "cid"))).await;
    let detail = store.call(ReadLock { lock: door() }).await.unwrap().unwrap();
    assert_eq!(detail.view.resource, name("deploy/prod:eu%1"));
    assert_eq!(detail.view.holders, std::slice::from_ref(&ann));
    assert_eq!(detail.view.waiting, 2);
    let queue: Vec<_> = detail.line.iter().map(|waiter| (waiter.owner.to_string(), waiter.mode)).collect();
    assert_eq!(queue, [("bob".to_owned(), LockMode::Shared), ("cid".to_owned(), LockMode::Exclusive)]);
    assert_eq!(detail.line[1].since, ann.acquired_at + Duration::from_millis(5));
    assert_eq!(detail.line[0].alive_until, ann.acquired_at + SILENCE);
}

pub async fn requests_at_once_are_granted_one_at_a_time(subject: &mut dyn Subject) {
    let store = subject.store();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let store = store.clone();
        tasks.spawn(async move { acquire(&store, &ask(&door(), &format!("racer-{number}"))).await.answer });
    }
    let answers = tasks.join_all().await;
    let grants = answers.iter().filter(|answer| matches!(answer, Acquired::Granted(_))).count();
    assert_eq!(grants, 1);
}

pub async fn a_stages_lock_is_one_for_all_and_survives_a_reopening(subject: &mut dyn Subject) {
    let store = subject.store();
    let lock = LockName::Stage(StageLock::Reconciler);
    let held = granted(&store, &ask(&lock, "replica-1")).await;
    refused(&store, &ask(&lock, "replica-2")).await;
    let renewed = store
        .call(RenewLock { lock: lock.clone(), token: held.token.clone(), ttl: TTL })
        .await
        .unwrap()
        .answer;
    assert_eq!(renewed.fence, held.fence, "the same holder ticks again");
    drop(store);
    subject.reopen().await;
    let store = subject.store();
    refused(&store, &ask(&lock, "replica-2")).await;
    granted(&store, &ask(&LockName::Stage(StageLock::PendingReplayer), "replica-2")).await;
    subject.elapse(TTL).await;
    let next = granted(&store, &ask(&lock, "replica-2")).await;
    assert!(next.fence > held.fence);
}

pub async fn only_the_live_snapshot_writer_writes_the_snapshot(subject: &mut dyn Subject) {
    let store = subject.store();
    let lock = LockName::Stage(StageLock::SnapshotWriter);
    let none = Fence::NONE;
    let unlocked = store.call(SaveSnapshot { fence: none, snapshot: "{}".to_owned() }).await;
    assert!(matches!(unlocked, Err(StoreError::Fenced { .. })), "{unlocked:?}");
    assert_eq!(store.call(ReadSnapshot).await, Ok(None));
    let first = granted(&store, &ask(&lock, "replica-1")).await;
    store.call(SaveSnapshot { fence: first.fence, snapshot: r#"{"workers":[]}"#.to_owned() }).await.unwrap();
    subject.elapse(TTL).await;
    let late = store.call(SaveSnapshot { fence: first.fence, snapshot: "late".to_owned() }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: first.fence, current: first.fence }));
    let second = granted(&store, &ask(&lock, "replica-2")).await;
    store.call(SaveSnapshot { fence: second.fence, snapshot: "second".to_owned() }).await.unwrap();
    let late = store.call(SaveSnapshot { fence: first.fence, snapshot: "late".to_owned() }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: first.fence, current: second.fence }));
    assert_eq!(store.call(ReadSnapshot).await, Ok(Some("second".to_owned())));
}
