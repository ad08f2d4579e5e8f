//! Users' locks, as operators find them in Redis.

use interlock_backend::verbs::{ReleaseLock, RenewLock, WithdrawLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::clock::ManualClock;
use interlock_backend::locks::{AcquireLock, Acquired, Busy};
use interlock_model::Timestamp;
use interlock_model::lock::{HISTORY_KEPT, LockLimits, LockMode, LockName};
use interlock_poll::until;
use interlock_servers::Redis;
use serde_json::{Value, json};

use super::asking::{DOOR, ask, door, ends_within, granted, refused, shown, waiting};
use super::{LEASE, acme, name, open, open_on, server};

#[tokio::test]
async fn a_held_lock_shows_owner_token_and_fence_and_nothing_after_its_release() {
    let server = server().await;
    let store = open(&server.url()).await;
    let asked = AcquireLock { owner: name(r#"ann "Ü" a\b/c"#), ..ask(&door(), "ann") };
    let held = granted(&store, &asked).await;
    let expected = json!({
        "owner": held.owner, "token": "call-of-ann", "fence": held.fence, "mode": "exclusive",
        "acquired_at": held.acquired_at, "expires_at": held.expires_at,
    });
    assert_eq!(shown(&server, DOOR).await, expected);
    assert!(ends_within(&server, DOOR, LEASE).await);

    let renewed = store
        .call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE * 2 })
        .await
        .unwrap()
        .answer;
    assert_eq!(shown(&server, DOOR).await["expires_at"], json!(renewed.expires_at));
    assert!(!ends_within(&server, DOOR, LEASE).await && ends_within(&server, DOOR, LEASE * 2).await);
    let _ = store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await.unwrap();
    assert_eq!(shown(&server, DOOR).await, Value::Null);
}

#[tokio::test]
async fn the_key_of_a_shared_lock_shows_the_holder_whose_lease_ends_last() {
    let server = server().await;
    let store = open(&server.url()).await;
    let shared = |who: &str, ttl| AcquireLock { mode: LockMode::Shared, ttl, ..ask(&door(), who) };
    let ann = granted(&store, &shared("ann", LEASE)).await;
    let bob = granted(&store, &shared("bob", LEASE * 3)).await;
    let value = shown(&server, DOOR).await;
    assert_eq!((&value["owner"], &value["fence"]), (&json!("bob"), &json!(bob.fence)));
    assert_eq!(value["expires_at"], json!(bob.expires_at), "it is held until then");
    let holders: Vec<_> = value["holders"].as_array().unwrap().iter().map(|it| &it["token"]).collect();
    assert_eq!(holders, [&json!("call-of-ann"), &json!("call-of-bob")]);
    assert!(!ends_within(&server, DOOR, LEASE * 2).await && ends_within(&server, DOOR, LEASE * 3).await);

    let _ = store.call(ReleaseLock { lock: door(), token: ann.token.clone() }).await.unwrap();
    let value = shown(&server, DOOR).await;
    assert_eq!((&value["owner"], value["holders"].as_array().unwrap().len()), (&json!("bob"), 1));
    let _ = store.call(ReleaseLock { lock: door(), token: bob.token.clone() }).await.unwrap();
    assert_eq!(shown(&server, DOOR).await, Value::Null);
}

#[tokio::test]
async fn a_lock_that_ran_out_by_the_servers_own_clock_is_free_and_shows_nothing() {
    let server = server().await;
    let store = open(&server.url()).await;
    let ann = granted(&store, &AcquireLock { ttl: Duration::from_millis(40), ..ask(&door(), "ann") }).await;
    until("it has expired", async || shown(&server, DOOR).await == Value::Null).await;
    let bob = granted(&store, &ask(&door(), "bob")).await;
    assert!(bob.fence > ann.fence);
    assert_eq!(shown(&server, DOOR).await["owner"], "bob");
}

#[tokio::test]
async fn a_foreign_value_is_held_and_left_alone() {
    let server = server().await;
    let store = open(&server.url()).await;
    let like_ours = r#"{"owner":"op","token":"t","fence":1,"mode":"exclusive","expires_at":1}"#;
    for foreign in ["foreign", "17", "null", "[]", "{}", like_ours] {
        server.command(&["SET", DOOR, foreign]).await.unwrap();
        let busy = refused(&store, &ask(&door(), "ann")).await;
        assert_eq!((busy.holder, busy.held_for), (None, Duration::ZERO), "{foreign}");
        assert_eq!(server.command(&["GET", DOOR]).await.unwrap(), foreign);
    }
    server.command(&["DEL", DOOR]).await.unwrap();
    server.command(&["HSET", DOOR, "not", "even text"]).await.unwrap();
    let turn = store.call(waiting(&door(), "ann")).await.unwrap();
    assert!(matches!(turn.answer, Acquired::Waiting(Busy { holder: None, position: 1, .. })), "{turn:?}");
    let turn = store.call(ask(&door(), "bob")).await.unwrap();
    assert_eq!(turn.next, None, "no request is next");
    server.command(&["DEL", DOOR]).await.unwrap();
    granted(&store, &waiting(&door(), "ann")).await;
}

#[tokio::test]
async fn l23_nothing_that_ends_a_hold_deletes_a_value_that_is_not_ours() {
    let server = server().await;
    let store = open(&server.url()).await;
    for round in 0..3 {
        let held = granted(&store, &ask(&door(), "ann")).await;
        server.command(&["SET", DOOR, "an operator's"]).await.unwrap();
        assert!(
            store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await.is_ok(),
            "the record says who holds it"
        );
        let request = name("request-of-ann");
        let ended = match round {
            0 => store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await,
            1 => store.call(WithdrawLock { lock: door(), request, call: held.token.clone() }).await,
            _ => store.call(ReleaseLock { lock: door(), token: name("a-guess") }).await,
        };
        assert_eq!(ended.is_ok(), round < 2, "{ended:?}");
        assert_eq!(server.command(&["GET", DOOR]).await.unwrap(), "an operator's");
        let busy = refused(&store, &ask(&door(), "bob")).await;
        assert_eq!(busy.holder, (round == 2).then(|| name("ann")));
        server.command(&["DEL", DOOR]).await.unwrap();
    }
}

#[tokio::test]
async fn a_value_that_an_operator_deleted_frees_nothing_and_is_written_again() {
    let server = server().await;
    let store = open(&server.url()).await;
    let held = granted(&store, &ask(&door(), "ann")).await;
    server.command(&["DEL", DOOR]).await.unwrap();
    let _ = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await.unwrap();
    assert_eq!(shown(&server, DOOR).await["fence"], json!(held.fence));
    server.command(&["DEL", DOOR]).await.unwrap();
    assert_eq!(refused(&store, &ask(&door(), "bob")).await.holder, Some(name("ann")));
    assert_eq!(shown(&server, DOOR).await["fence"], json!(held.fence));
}

#[tokio::test]
async fn l8_the_fence_comes_with_the_grant_and_is_unique() {
    let server = server().await;
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let locks: Vec<LockName> = (0..40).map(|it| LockName::Of(acme(), name(&format!("lock-{it}")))).collect();
    let asked: Vec<AcquireLock> = locks.iter().map(|lock| ask(lock, "ann")).collect();
    let grants = join_all(asked.iter().enumerate().map(|(at, asked)| granted(&stores[at % 2], asked))).await;
    let fences: BTreeSet<_> = grants.iter().map(|grant| grant.fence).collect();
    assert_eq!(fences.len(), grants.len(), "each hold has a fence of its own");
    for (lock, grant) in locks.iter().zip(&grants) {
        let value = shown(&server, &format!("cordum:lock:{{acme}}:{}", lock.resource())).await;
        assert_eq!(value["fence"], json!(grant.fence));
    }
}

#[tokio::test]
async fn l17_a_lease_ends_when_its_holder_said_whatever_lease_a_contender_asks_for() {
    let server = server().await;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let store = open_on(&server.url(), "instance-1", clock.clone()).await;
    granted(&store, &ask(&door(), "ann")).await;
    let hasty = AcquireLock { ttl: Duration::from_millis(1), ..ask(&door(), "bob") };
    clock.advance(Duration::from_millis(59_999));
    assert_eq!(refused(&store, &hasty).await.holder, Some(name("ann")));
    clock.advance(Duration::from_millis(1));
    granted(&store, &hasty).await;
}

#[tokio::test]
async fn l18_an_owner_that_comes_back_as_another_process_does_not_get_what_it_still_holds() {
    let server = server().await;
    let (before, after) = (open(&server.url()).await, open(&server.url()).await);
    let held = granted(&before, &ask(&door(), "ann")).await;
    let again = AcquireLock { request: name("another"), call: name("another-call"), ..ask(&door(), "ann") };
    assert_eq!(refused(&after, &again).await.holder, Some(name("ann")), "a name proves nothing");
    let _ = before.call(ReleaseLock { lock: door(), token: held.token }).await.unwrap();
    assert!(granted(&after, &again).await.fence > held.fence);
}

#[tokio::test]
async fn every_key_of_a_lock_ends_by_itself_a_week_after_the_last_touch() {
    let server = server().await;
    let store = open(&server.url()).await;
    let held = granted(&store, &ask(&door(), "ann")).await;
    let _ = store.call(waiting(&door(), "bob")).await.unwrap();
    check_ends(&server).await;
    // A lock that is held for long is touched by its renewals alone.
    for key in keys(&server).await {
        server.command(&["PEXPIRE", &key, "30000"]).await.unwrap();
    }
    let _ = store.call(RenewLock { lock: door(), token: held.token.clone(), ttl: LEASE }).await.unwrap();
    check_ends(&server).await;
    let _ = store.call(ReleaseLock { lock: door(), token: held.token.clone() }).await.unwrap();
    let bob = granted(&store, &waiting(&door(), "bob")).await;
    check_ends(&server).await;
    let _ = store.call(waiting(&door(), "cid")).await.unwrap();
    check_ends(&server).await;
    let _ = store.call(ReleaseLock { lock: door(), token: bob.token.clone() }).await.unwrap();
    check_ends(&server).await;
}

/// What only the store reads.
async fn keys(server: &Redis) -> Vec<String> {
    let keys = server.command(&["KEYS", "wf:lock*"]).await.unwrap();
    keys.lines().map(str::to_owned).collect()
}

async fn check_ends(server: &Redis) {
    let keys = keys(server).await;
    assert!(keys.len() >= 6, "hash, line, silences, history and lists: {keys:?}");
    for key in keys {
        assert!(!ends_within(server, &key, HISTORY_KEPT / 8 * 7).await, "{key} lasts");
        assert!(ends_within(server, &key, HISTORY_KEPT + Duration::from_hours(2)).await, "{key} ends");
    }
}

#[tokio::test]
async fn what_is_left_of_a_lock_that_is_gone_counts_no_more() {
    let server = server().await;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let store = open_on(&server.url(), "instance-1", clock.clone()).await;
    granted(&store, &ask(&door(), "ann")).await;
    let _ = store.call(waiting(&door(), "bob")).await.unwrap();
    // As if it had ended by itself: only the lists of the tenant still name it.
    for part in ["", ":order", ":ends", ":line", ":silences", ":history"] {
        server.command(&["DEL", &format!("wf:lock{part}:{{acme}}:deploy%2Fprod:eu%251")]).await.unwrap();
    }
    clock.advance(LEASE);
    let other = LockName::Of(acme(), name("other"));
    let limits = LockLimits { held_max: 1, waiting_max: 1, line_max: 1 };
    granted(&store, &AcquireLock { limits, ..ask(&other, "ann") }).await;
    let waits = store.call(AcquireLock { limits, ..waiting(&other, "bob") }).await.unwrap();
    assert!(matches!(waits.answer, Acquired::Waiting(_)), "{waits:?}");
    let listed = server.command(&["ZRANGE", "wf:locks:listed:{acme}", "0", "-1"]).await.unwrap();
    assert_eq!(listed, "001794700860000/other");
}
