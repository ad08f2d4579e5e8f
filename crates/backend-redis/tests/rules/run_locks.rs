//! The lock on a run, which operators read with GET.

use interlock_backend::suspects::SuspectOutcome;
use interlock_backend::verbs::{AcquireRun, AcquireSuspect, ExtendRunLease};
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::clock::ManualClock;
use interlock_model::{InstanceId, RunId, Timestamp};

use interlock_poll::until;

use super::asking::{ends_within, shown};
use super::{LEASE, acme, idle, name, open, open_on, server, started};

fn lock_of(run: RunId) -> String {
    format!("cordum:wf:run:lock:{run}")
}

#[tokio::test]
async fn a_taken_run_shows_its_holder_and_nothing_after_the_commit() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, false).await;
    let holder: InstanceId = name("engine-1");
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: holder.clone(), lease: LEASE })
        .await
        .unwrap()
        .unwrap();

    let value = server.command(&["GET", &lock_of(run)]).await.unwrap();
    let value: serde_json::Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value["owner"], "engine-1");
    assert_eq!(value["fence"], taken.fence.number());
    assert!(value["token"].as_str().is_some_and(|token| !token.is_empty()), "{value}");
    let left: i64 = server.command(&["PTTL", &lock_of(run)]).await.unwrap().parse().unwrap();
    assert!((1..=60_000).contains(&left), "the lock ends by itself, in {left} ms");

    let turn = idle(&taken);
    let _ = store.call(turn).await.unwrap();
    assert_eq!(server.command(&["EXISTS", &lock_of(run)]).await.unwrap(), "0");
}

#[tokio::test]
async fn a_foreign_value_in_the_lock_is_held_and_left_alone() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, false).await;
    let timeless = r#"{"owner":"op","fence":1,"expires_at":"tomorrow"}"#;
    for foreign in ["foreign", "{\"owner\":\"foreign\"}", "17", "null", "[]", timeless] {
        server.command(&["SET", &lock_of(run), foreign]).await.unwrap();
        assert_eq!(
            store.call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE }).await,
            Ok(None),
            "{foreign}"
        );
        assert_eq!(server.command(&["GET", &lock_of(run)]).await.unwrap(), foreign);
    }
    server.command(&["DEL", &lock_of(run)]).await.unwrap();
    server.command(&["HSET", &lock_of(run), "not", "even text"]).await.unwrap();
    assert_eq!(
        store.call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE }).await,
        Ok(None)
    );
    server.command(&["DEL", &lock_of(run)]).await.unwrap();
    assert!(
        store
            .call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE })
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_kept_run_shows_its_new_end_and_keeps_owner_token_and_fence() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, false).await;
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: name("engine-1"), lease: LEASE })
        .await
        .unwrap()
        .unwrap();
    let before = shown(&server, &lock_of(run)).await;
    store.call(ExtendRunLease { tenant: acme(), run, fence: taken.fence, lease: LEASE * 2 }).await.unwrap();
    let after = shown(&server, &lock_of(run)).await;
    for field in ["owner", "token", "fence"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert!(after["expires_at"].as_u64() > before["expires_at"].as_u64());
    assert!(!ends_within(&server, &lock_of(run), LEASE).await);
    assert!(ends_within(&server, &lock_of(run), LEASE * 2).await);

    // What is not ours is neither extended nor replaced, and the hold is over.
    server.command(&["SET", &lock_of(run), "foreign"]).await.unwrap();
    let refused = store.call(ExtendRunLease { tenant: acme(), run, fence: taken.fence, lease: LEASE }).await;
    assert_eq!(refused, Err(StoreError::Fenced { held: taken.fence, current: taken.fence }));
    assert_eq!(server.command(&["GET", &lock_of(run)]).await.unwrap(), "foreign");
}

#[tokio::test]
async fn an_instance_that_is_gone_loses_its_runs_before_their_leases_end() {
    let server = server().await;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let first = open_on(&server.url(), "first", clock.clone()).await;
    let second = open_on(&server.url(), "second", clock.clone()).await;
    let run = started(&first, 1, false).await;
    assert!(
        first
            .call(AcquireRun { tenant: acme(), run, holder: name("first"), lease: LEASE })
            .await
            .unwrap()
            .is_some()
    );
    drop(first);

    clock.advance(Duration::from_secs(9));
    assert_eq!(
        second.call(AcquireRun { tenant: acme(), run, holder: name("second"), lease: LEASE }).await,
        Ok(None),
        "it may come back yet"
    );
    clock.advance(Duration::from_secs(2));
    let acquire = AcquireSuspect {
        tenant: acme(),
        holder: name("second"),
        lease: LEASE,
        tries_max: 5,
        dead_letters_max: 10,
    };
    until("the second instance learns that the first is offline", async || {
        matches!(second.call(acquire.clone()).await.unwrap(), SuspectOutcome::Acquired(_))
    })
    .await;
}
