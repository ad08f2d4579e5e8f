//! Waiting for a lock: first come, first served, and who is gone does not block the others.

use crate::verbs::{ReleaseLock, RenewLock, WithdrawLock};
use std::time::Duration;

use interlock_model::lock::{LockEnd, LockLimits, LockName};

use super::Subject;
use super::lock_scene::{
    SILENCE, TTL, acquire, ask, door, granted, history, in_line, refused, shared, waiting, whose,
};
use super::scene::{acme, globex, name};
use crate::locks::{AcquireLock, Acquired, Busy, LockQuota};

pub async fn the_line_is_served_first_come_first_served(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let bob = waiting(ask(&door(), "bob"));
    let cid = waiting(ask(&door(), "cid"));
    assert_eq!(in_line(&store, &bob).await.position, 1);
    assert_eq!(in_line(&store, &cid).await.position, 2);
    assert_eq!(in_line(&store, &bob).await.position, 1, "asking again keeps the place");
    assert_eq!(refused(&store, &ask(&door(), "dan")).await.position, 3);
    let released = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    assert_eq!(released.next, Some(whose("bob")), "the first, and nobody else");
    // It is bob's turn: nobody overtakes, though the lock is free.
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

pub async fn sharers_do_not_overtake_whoever_waits_alone(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &shared(&door(), "ann")).await;
    in_line(&store, &waiting(ask(&door(), "writer"))).await;
    let (bob, cid) = (waiting(shared(&door(), "bob")), waiting(shared(&door(), "cid")));
    assert_eq!(in_line(&store, &bob).await.position, 2, "the writer would wait for ever otherwise");
    assert_eq!(in_line(&store, &cid).await.position, 3);
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

pub async fn a_waiter_that_is_gone_does_not_block_the_line(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &AcquireLock { ttl: SILENCE * 10, ..ask(&door(), "ann") }).await;
    in_line(&store, &waiting(ask(&door(), "gone"))).await;
    subject.elapse(Duration::from_millis(600)).await;
    let bob = waiting(ask(&door(), "bob"));
    assert_eq!(in_line(&store, &bob).await.position, 2);
    assert_eq!(
        store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap().next,
        Some(whose("gone"))
    );
    let blocked = in_line(&store, &bob).await;
    assert_eq!(blocked.may_change_in, Some(Duration::from_millis(400)), "then the first is gone");
    subject.elapse(Duration::from_millis(400)).await;
    granted(&store, &bob).await;
    // Whoever comes back late stands at the end of the line.
    assert_eq!(in_line(&store, &waiting(ask(&door(), "gone"))).await.position, 1);
}

pub async fn a_hold_that_runs_out_makes_room_for_the_first_in_line(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let bob = waiting(ask(&door(), "bob"));
    assert_eq!(in_line(&store, &bob).await.may_change_in, Some(TTL));
    subject.elapse(TTL.saturating_sub(Duration::from_millis(1))).await;
    assert_eq!(in_line(&store, &bob).await.may_change_in, Some(Duration::from_millis(1)));
    subject.elapse(Duration::from_millis(1)).await;
    let bob = granted(&store, &bob).await;
    assert!(bob.fence > ann.fence && bob.acquired_at == ann.expires_at);
}

pub async fn withdrawing_leaves_the_line_and_ends_an_unheard_grant(subject: &mut dyn Subject) {
    let store = subject.store();
    let (ann, bob) = (ask(&door(), "ann"), waiting(ask(&door(), "bob")));
    granted(&store, &ann).await;
    in_line(&store, &bob).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: bob.request.clone(), call: bob.call.clone() })
        .await
        .unwrap();
    assert_eq!(refused(&store, &ask(&door(), "cid")).await.position, 1, "the line is empty");
    in_line(&store, &bob).await;
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

pub async fn a_late_withdrawal_does_not_end_what_a_retry_was_told_of(subject: &mut dyn Subject) {
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
    in_line(&store, &waiter).await;
    in_line(&store, &AcquireLock { call: name("bob-again"), ..waiter.clone() }).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: waiter.request.clone(), call: waiter.call.clone() })
        .await
        .unwrap();
    assert_eq!(refused(&store, &ask(&door(), "cid")).await.position, 2, "bob still waits");
}

pub async fn quotas_bound_what_a_tenant_has_of_locks(subject: &mut dyn Subject) {
    let store = subject.store();
    let limits = LockLimits { held_max: 2, waiting_max: 3, line_max: 2 };
    let bounded =
        |lock: &str, who: &str| AcquireLock { limits, ..ask(&LockName::Of(acme(), name(lock)), who) };
    let first = granted(&store, &bounded("one", "ann")).await;
    granted(&store, &bounded("two", "ann-2")).await;
    let third = acquire(&store, &bounded("three", "ann-3")).await.answer;
    assert_eq!(third, Acquired::OverQuota { what: LockQuota::Held, limit: 2, current: 2 });
    for who in ["bob", "cid"] {
        in_line(&store, &waiting(bounded("one", who))).await;
    }
    let full = acquire(&store, &waiting(bounded("one", "dan"))).await.answer;
    assert!(matches!(full, Acquired::Refused(Busy { is_line_full: true, position: 3, .. })), "{full:?}");
    in_line(&store, &waiting(bounded("two", "dan"))).await;
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

pub async fn a_call_that_goes_leaves_the_place_to_another_of_the_same_request(subject: &mut dyn Subject) {
    let store = subject.store();
    granted(&store, &ask(&door(), "ann")).await;
    let first = waiting(ask(&door(), "bob"));
    let copy = AcquireLock { call: name("copy"), ..first.clone() };
    in_line(&store, &first).await;
    in_line(&store, &copy).await;
    in_line(&store, &waiting(ask(&door(), "cid"))).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: copy.request.clone(), call: copy.call.clone() })
        .await
        .unwrap();
    assert_eq!(in_line(&store, &first).await.position, 1, "the other call still waits");
    in_line(&store, &copy).await;
    assert_eq!(refused(&store, &AcquireLock { stay: None, ..copy }).await.position, 3, "its wait is over");
    assert_eq!(in_line(&store, &first).await.position, 1);
    let _ = store
        .call(WithdrawLock { lock: door(), request: first.request.clone(), call: first.call.clone() })
        .await
        .unwrap();
    assert_eq!(in_line(&store, &waiting(ask(&door(), "cid"))).await.position, 1, "now nobody is left");
}

pub async fn a_repeat_that_goes_does_not_end_the_hold_that_it_was_told_of(subject: &mut dyn Subject) {
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

pub async fn who_becomes_first_is_told_of_a_hold_that_ends_before_it_would_look(subject: &mut dyn Subject) {
    let store = subject.store();
    let ann = granted(&store, &ask(&door(), "ann")).await;
    let (bob, cid) = (waiting(ask(&door(), "bob")), waiting(ask(&door(), "cid")));
    in_line(&store, &bob).await;
    in_line(&store, &cid).await;
    let _ = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    let short = acquire(&store, &bob).await;
    assert_eq!(short.next, Some(whose("cid")), "the hold ends before cid counts as gone");
    let Acquired::Granted(short) = short.answer else { panic!("it is bob's turn: {short:?}") };
    let dan = waiting(AcquireLock { ttl: SILENCE * 2, ..ask(&door(), "dan") });
    in_line(&store, &dan).await;
    in_line(&store, &waiting(ask(&door(), "eve"))).await;
    let _ = store
        .call(WithdrawLock { lock: door(), request: cid.request.clone(), call: cid.call.clone() })
        .await
        .unwrap();
    let _ = store.call(ReleaseLock { lock: door(), token: short.token.clone() }).await.unwrap();
    assert_eq!(acquire(&store, &dan).await.next, None, "eve looks before this one ends");
}
