//! Waiting for a lock: first come, first served, and an offline waiter does not block the others.

use crate::verbs::{ReleaseLock, RenewLock, WithdrawLock};
use std::time::Duration;

use interlock_model::lock::{LockEnd, LockLimits, LockName};

use super::Subject;
use super::lock_requests::{
    SILENCE, TTL, acquire, ask, door, granted, history, queued_request, refused, shared, waiting, whose,
};
use super::scene::{acme, globex, name};
use crate::locks::{AcquireLock, Acquired, Busy, LockQuota};

pub async fn the_queue_is_served_first_come_first_served(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let bob = waiting(ask(&door(), "bob"));
    let cid = waiting(ask(&door(), "cid"));
    assert_eq!(queued_request(&store, &bob).await.position, 1);
    assert_eq!(queued_request(&store, &cid).await.position, 2);
    assert_eq!(queued_request(&store, &bob).await.position, 1, "asking again keeps the place");
    assert_eq!(refused(&store, &ask(&door(), "dan")).await.position, 3);
    let released = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    assert_eq!(released.next, Some(whose("bob")), "the first, and no other");
    // It is bob's turn: no other request overtakes, though the lock is free.
    let overtaking = acquire(&store, &ask(&door(), "dan")).await;
    assert!(matches!(overtaking.answer, Acquired::Refused(Busy { holder: None, .. })), "{overtaking:?}");
    assert_eq!(overtaking.next, Some(whose("bob")), "who finds a free lock wakes whose turn it is");
    let cid_again = acquire(&store, &cid).await;
    assert!(matches!(cid_again.answer, Acquired::Waiting(_)), "{cid_again:?}");
    assert_eq!(cid_again.next, Some(whose("bob")));
    let bob = granted(&store, &bob).await;
    assert_eq!(
        store.call(ReleaseLock { lock: door(), token: bob.token.clone() }).await.unwrap().next,
        Some(whose("cid"))
    );
    granted(&store, &cid).await;
}

pub async fn sharers_do_not_overtake_an_exclusive_waiter(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &shared(&door(), "ann")).await;
    queued_request(&store, &waiting(ask(&door(), "writer"))).await;
    let (bob, cid) = (waiting(shared(&door(), "bob")), waiting(shared(&door(), "cid")));
    assert_eq!(queued_request(&store, &bob).await.position, 2, "the writer would wait for ever otherwise");
    assert_eq!(queued_request(&store, &cid).await.position, 3);
    assert_eq!(
        store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap().next,
        Some(whose("writer"))
    );
    let writer = granted(&store, &waiting(ask(&door(), "writer"))).await;
    assert_eq!(
        store.call(ReleaseLock { lock: door(), token: writer.token.clone() }).await.unwrap().next,
        Some(whose("bob"))
    );
    let bob = acquire(&store, &bob).await;
    assert!(matches!(bob.answer, Acquired::Granted(_)), "{bob:?}");
    assert_eq!(bob.next, Some(whose("cid")), "one sharer passes the turn on to the next");
    assert_eq!(acquire(&store, &cid).await.next, None);
}

pub async fn an_offline_waiter_does_not_block_the_queue(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &AcquireLock { ttl: SILENCE * 10, ..ask(&door(), "ann") }).await;
    queued_request(&store, &waiting(ask(&door(), "offline"))).await;
    subject.elapse(Duration::from_millis(600)).await;
    let bob = waiting(ask(&door(), "bob"));
    assert_eq!(queued_request(&store, &bob).await.position, 2);
    assert_eq!(
        store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap().next,
        Some(whose("offline"))
    );
    let blocked = queued_request(&store, &bob).await;
    assert_eq!(blocked.may_change_in, Some(Duration::from_millis(400)), "then the first counts as offline");
    subject.elapse(Duration::from_millis(400)).await;
    granted(&store, &bob).await;
    // A waiter that comes back late is the last in the queue.
    assert_eq!(queued_request(&store, &waiting(ask(&door(), "offline"))).await.position, 1);
}

pub async fn an_expired_lease_makes_room_for_the_first_waiter(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let bob = waiting(ask(&door(), "bob"));
    assert_eq!(queued_request(&store, &bob).await.may_change_in, Some(TTL));
    subject.elapse(TTL.saturating_sub(Duration::from_millis(1))).await;
    assert_eq!(queued_request(&store, &bob).await.may_change_in, Some(Duration::from_millis(1)));
    subject.elapse(Duration::from_millis(1)).await;
    let bob = granted(&store, &bob).await;
    assert!(bob.fence > ann.fence && bob.acquired_at == ann.expires_at);
}

pub async fn withdrawing_leaves_the_queue_and_ends_an_unanswered_grant(subject: &mut dyn Subject) {
    let store = subject.store();
    let (ann, bob) = (ask(&door(), "ann"), waiting(ask(&door(), "bob")));
    granted(&store, &ann).await;
    queued_request(&store, &bob).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: bob.request.clone(), call: bob.call.clone() })
        .await
        .unwrap();
    assert_eq!(refused(&store, &ask(&door(), "cid")).await.position, 1, "the queue is empty");
    queued_request(&store, &bob).await;
    let withdrawn = store
        .call(WithdrawLock { lock: door(), request: ann.request.clone(), call: ann.call.clone() })
        .await
        .unwrap();
    assert_eq!(withdrawn.next, Some(whose("bob")));
    assert_eq!(history(&store, &door()).await[0].end, Some(LockEnd::Withdrawn));
    granted(&store, &bob).await;
    let nothing = LockName::Of(acme(), name("never"));
    assert!(
        store
            .call(WithdrawLock {
                lock: nothing.clone(),
                request: ann.request.clone(),
                call: ann.call.clone()
            })
            .await
            .is_ok(),
        "there is nothing to leave"
    );
}

pub async fn a_late_withdrawal_does_not_end_a_grant_that_a_retry_received(subject: &mut dyn Subject) {
    let store = subject.store();
    let first = ask(&door(), "ann");
    let retry = AcquireLock { call: name("retry"), ..first.clone() };
    let held = granted(&store, &first).await;
    granted(&store, &retry).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: first.request.clone(), call: first.call.clone() })
        .await
        .unwrap();
    assert!(
        store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: TTL }).await.is_ok(),
        "the retry has it"
    );
    let waiter = waiting(ask(&door(), "bob"));
    queued_request(&store, &waiter).await;
    queued_request(&store, &AcquireLock { call: name("bob-again"), ..waiter.clone() }).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: waiter.request.clone(), call: waiter.call.clone() })
        .await
        .unwrap();
    assert_eq!(refused(&store, &ask(&door(), "cid")).await.position, 2, "bob still waits");
}

pub async fn a_renewal_that_drops_an_offline_waiter_answers_whose_turn_it_is(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &AcquireLock { ttl: SILENCE * 10, ..shared(&door(), "ann") }).await;
    let renew = RenewLock { lock: door(), token: ann.token, ttl: SILENCE * 10 };
    queued_request(&store, &waiting(ask(&door(), "writer"))).await;
    subject.elapse(Duration::from_millis(600)).await;
    queued_request(&store, &waiting(shared(&door(), "bob"))).await;
    assert_eq!(store.call(renew.clone()).await.unwrap().next, None, "the writer is before bob");
    subject.elapse(Duration::from_millis(400)).await;
    assert_eq!(store.call(renew).await.unwrap().next, Some(whose("bob")), "the writer counts as offline now");
}

pub async fn quotas_bound_the_locks_of_a_tenant(subject: &mut dyn Subject) {
    let store = subject.store();
    let limits = LockLimits { held_max: 2, waiting_max: 3, line_max: 2 };
    let bounded =
        |lock: &str, who: &str| AcquireLock { limits, ..ask(&LockName::Of(acme(), name(lock)), who) };
    let first = granted(&store, &bounded("one", "ann")).await;
    granted(&store, &bounded("two", "ann-2")).await;
    let third = acquire(&store, &bounded("three", "ann-3")).await.answer;
    assert_eq!(third, Acquired::OverQuota { what: LockQuota::Held, limit: 2, current: 2 });
    for who in ["bob", "cid"] {
        queued_request(&store, &waiting(bounded("one", who))).await;
    }
    let full = acquire(&store, &waiting(bounded("one", "dan"))).await.answer;
    assert!(matches!(full, Acquired::Refused(Busy { is_line_full: true, position: 3, .. })), "{full:?}");
    queued_request(&store, &waiting(bounded("two", "dan"))).await;
    let many = acquire(&store, &waiting(bounded("two", "eve"))).await.answer;
    assert_eq!(many, Acquired::OverQuota { what: LockQuota::Waiting, limit: 3, current: 3 });
    // What a tenant has does not count for another, and what ended makes room.
    let theirs = LockName::Of(globex(), name("three"));
    granted(&store, &AcquireLock { limits, ..ask(&theirs, "eve") }).await;
    let _ = store
        .call(ReleaseLock { lock: LockName::Of(acme(), name("one")), token: first.token.clone() })
        .await
        .unwrap();
    granted(&store, &bounded("three", "ann-3")).await;
    subject.elapse(SILENCE).await;
    let one = LockLimits { held_max: 1, ..limits };
    granted(&store, &AcquireLock { limits: one, ..ask(&theirs, "fay") }).await;
    granted(&store, &bounded("four", "ann-4")).await;
    granted(&store, &bounded("five", "ann-5")).await;
}

pub async fn a_withdrawn_call_leaves_the_place_to_another_of_the_same_request(subject: &mut dyn Subject) {
    let store = subject.store();
    granted(&store, &ask(&door(), "ann")).await;
    let first = waiting(ask(&door(), "bob"));
    let copy = AcquireLock { call: name("copy"), ..first.clone() };
    queued_request(&store, &first).await;
    queued_request(&store, &copy).await;
    queued_request(&store, &waiting(ask(&door(), "cid"))).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: copy.request.clone(), call: copy.call.clone() })
        .await
        .unwrap();
    assert_eq!(queued_request(&store, &first).await.position, 1, "the other call still waits");
    queued_request(&store, &copy).await;
    assert_eq!(refused(&store, &AcquireLock { stay: None, ..copy }).await.position, 3, "its wait is over");
    assert_eq!(queued_request(&store, &first).await.position, 1);
    let _ = store
        .call(WithdrawLock { lock: door(), request: first.request.clone(), call: first.call.clone() })
        .await
        .unwrap();
    assert_eq!(
        queued_request(&store, &waiting(ask(&door(), "cid"))).await.position,
        1,
        "now the queue is empty"
    );
}

pub async fn a_withdrawn_repeat_does_not_end_the_lease_of_its_request(subject: &mut dyn Subject) {
    let store = subject.store();
    let first = ask(&door(), "ann");
    let repeat = AcquireLock { call: name("repeat"), ..first.clone() };
    let held = granted(&store, &first).await;
    granted(&store, &repeat).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: repeat.request.clone(), call: repeat.call.clone() })
        .await
        .unwrap();
    assert!(
        store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: TTL }).await.is_ok(),
        "it was the first call's, and heard of"
    );
    // The other way round: made by the repeat, and found by the late first call.
    let (late, early) = (ask(&LockName::Of(acme(), name("other")), "bob"), name("early"));
    let early = AcquireLock { call: early, ..late.clone() };
    let held = granted(&store, &early).await;
    granted(&store, &late).await;
    let _ = store
        .call(WithdrawLock {
            lock: late.lock.clone(),
            request: late.request.clone(),
            call: late.call.clone(),
        })
        .await
        .unwrap();
    assert!(
        store.call(RenewLock { lock: late.lock.clone(), token: held.token.clone(), ttl: TTL }).await.is_ok()
    );
}

pub async fn a_new_first_waiter_is_woken_if_the_lease_expires_before_its_next_call(
    subject: &mut dyn Subject,
) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let (bob, cid) = (waiting(ask(&door(), "bob")), waiting(ask(&door(), "cid")));
    queued_request(&store, &bob).await;
    queued_request(&store, &cid).await;
    let _ = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    let short = acquire(&store, &bob).await;
    assert_eq!(short.next, Some(whose("cid")), "the lease expires before cid counts as offline");
    let Acquired::Granted(short) = short.answer else { panic!("it is bob's turn: {short:?}") };
    let dan = waiting(AcquireLock { ttl: SILENCE * 2, ..ask(&door(), "dan") });
    queued_request(&store, &dan).await;
    queued_request(&store, &waiting(ask(&door(), "eve"))).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: cid.request.clone(), call: cid.call.clone() })
        .await
        .unwrap();
    let _ = store.call(ReleaseLock { lock: door(), token: short.token.clone() }).await.unwrap();
    assert_eq!(acquire(&store, &dan).await.next, None, "eve looks before this one ends");
}
