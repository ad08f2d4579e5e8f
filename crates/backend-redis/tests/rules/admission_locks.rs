//! The lock that a tenant's starts wait for, and the keys that are reserved under it, as they stand in Redis.

use interlock_backend::verbs::{Admit, ReleaseIdempotencyKey, ReleaseLock, SaveWorkflow};
use std::time::Duration;

use interlock_backend::reservations::{ReserveIdempotencyKey, Reserved};
use interlock_backend::{Store, StoreError};
use interlock_model::Fence;
use interlock_model::admission::StartOutcome;
use interlock_model::lock::LockName;
use interlock_poll::until;
use interlock_servers::{Redis, RedisCluster};
use serde_json::{Value, json};

use super::asking::{ask, ends_within, granted, refused, shown};
use super::lost_replies::Scene;
use super::{LEASE, acme, connect, deploy, document, name, open, request, server};

const VISIBLE: &str = "cordum:wf:run:admission:acme";
const RESERVED: &str = "wf:run:idempotency:{acme}:deploy:key-1";

fn gate() -> LockName {
    LockName::Admission(acme())
}

fn reserve(start: &Admit, fence: Fence, lease: Duration) -> ReserveIdempotencyKey {
    ReserveIdempotencyKey {
        tenant: acme(),
        workflow: deploy(),
        intent: start.request.intent.clone().unwrap(),
        run: start.request.run,
        fence,
        lease,
    }
}

async fn release(store: &Store, start: &Admit) -> Result<bool, StoreError> {
    store
        .call(ReleaseIdempotencyKey {
            tenant: acme(),
            workflow: deploy(),
            key: start.request.intent.as_ref().unwrap().key.clone(),
            run: start.request.run,
        })
        .await
}

#[tokio::test]
async fn the_lock_shows_its_holder_under_the_documented_name_and_nothing_after() {
    let server = server().await;
    let store = open(&server.url()).await;
    let held = granted(&store, &ask(&gate(), "replica-1")).await;
    let value = shown(&server, VISIBLE).await;
    assert_eq!(value["owner"], "replica-1");
    assert_eq!((&value["token"], &value["fence"]), (&json!("call-of-replica-1"), &json!(held.fence)));
    assert!(ends_within(&server, VISIBLE, LEASE).await);
    assert_eq!(refused(&store, &ask(&gate(), "replica-2")).await.holder, Some(name("replica-1")));
    // What an operator deletes is still held, and is shown again by the next who looks.
    server.command(&["DEL", VISIBLE]).await.unwrap();
    assert_eq!(refused(&store, &ask(&gate(), "replica-2")).await.holder, Some(name("replica-1")));
    assert_eq!(shown(&server, VISIBLE).await["owner"], "replica-1");
    let _ = store.call(ReleaseLock { lock: gate(), token: held.token.clone() }).await.unwrap();
    assert_eq!(shown(&server, VISIBLE).await, Value::Null);
}

#[tokio::test]
async fn on_a_cluster_the_lock_carries_its_tenants_tag() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let store = open(&cluster.url()).await;
    let held = granted(&store, &ask(&gate(), "replica-1")).await;
    let get = redis::cmd("GET").arg("cordum:wf:run:admission:{acme}").clone();
    let value = connect(&cluster.url()).await.send(&get, false).await.unwrap();
    let value: Value = serde_json::from_str(&redis::from_redis_value::<String>(value).unwrap()).unwrap();
    assert_eq!(value["fence"], json!(held.fence));
}

#[tokio::test]
async fn a_foreign_value_holds_the_lock_and_is_left_alone() {
    let server = server().await;
    let store = open(&server.url()).await;
    server.command(&["SET", VISIBLE, "x"]).await.unwrap();
    assert_eq!(refused(&store, &ask(&gate(), "replica-1")).await.holder, None);
    assert_eq!(server.command(&["GET", VISIBLE]).await.unwrap(), "x");
    server.command(&["DEL", VISIBLE]).await.unwrap();
    granted(&store, &ask(&gate(), "replica-1")).await;
}

async fn changes(server: &Redis) -> String {
    let info = server.command(&["INFO", "persistence"]).await.unwrap();
    info.lines().find(|line| line.starts_with("rdb_changes_since_last_save")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_try_in_vain_writes_nothing() {
    let server = server().await;
    let store = open(&server.url()).await;
    granted(&store, &ask(&gate(), "replica-1")).await;
    // Each process says once a second that it is there; between two such words nothing changes.
    until("nothing is written by a hundred tries", async || {
        let before = changes(&server).await;
        for _ in 0..100 {
            refused(&store, &ask(&gate(), "replica-2")).await;
        }
        before == changes(&server).await
    })
    .await;
}

#[tokio::test]
async fn an_abandoned_reservation_vanishes_and_a_committed_key_stays() {
    let server = server().await;
    let store = open(&server.url()).await;
    store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document("deploy") }).await.unwrap();
    let held = granted(&store, &ask(&gate(), "replica-1")).await;
    let start = Admit { admission_fence: Some(held.fence), ..request(1, true) };
    let short = Duration::from_millis(200);
    assert_eq!(store.call(reserve(&start, held.fence, short)).await, Ok(Reserved::Granted));
    until("the reservation has expired", async || shown(&server, RESERVED).await == Value::Null).await;
    assert_eq!(store.call(reserve(&start, held.fence, LEASE)).await, Ok(Reserved::Granted));
    let value = shown(&server, RESERVED).await;
    assert_eq!(
        (&value["run"], &value["reservation"]["fence"]),
        (&json!(start.request.run), &json!(held.fence))
    );
    assert!(ends_within(&server, RESERVED, LEASE).await);
    assert!(matches!(store.call(start.clone()).await, Ok(StartOutcome::Admitted { .. })));
    assert_eq!(server.command(&["PTTL", RESERVED]).await.unwrap(), "-1");
    assert_eq!(shown(&server, RESERVED).await["reservation"], Value::Null);
}

#[tokio::test]
async fn a_foreign_value_under_a_key_is_reported_and_left_alone() {
    let server = server().await;
    let store = open(&server.url()).await;
    let held = granted(&store, &ask(&gate(), "replica-1")).await;
    let start = request(1, true);
    for foreign in
        ["text", "{\"run\":1}", "{\"run\":\"r\",\"fingerprint\":\"f\",\"reservation\":{\"fence\":\"x\"}}"]
    {
        server.command(&["SET", RESERVED, foreign]).await.unwrap();
        let reserved = store.call(reserve(&start, held.fence, LEASE)).await;
        assert!(matches!(reserved, Err(StoreError::Damaged { .. })), "{foreign}: {reserved:?}");
        let released = release(&store, &start).await;
        assert!(matches!(released, Err(StoreError::Damaged { .. })), "{foreign}: {released:?}");
        assert_eq!(server.command(&["GET", RESERVED]).await.unwrap(), foreign);
    }
}

#[tokio::test]
async fn a_reservation_whose_reply_was_lost_is_made_once() {
    let scene = Scene::new().await;
    let held = granted(&scene.store, &ask(&gate(), "replica-1")).await;
    let start = request(1, true);
    scene.lose_reply_to(&start.request.run.to_string());
    assert_eq!(scene.store.call(reserve(&start, held.fence, LEASE)).await, Ok(Reserved::Granted));
    assert_eq!(release(&scene.store, &start).await, Ok(true));
}

#[tokio::test]
async fn a_release_whose_reply_was_lost_has_released() {
    let scene = Scene::new().await;
    let held = granted(&scene.store, &ask(&gate(), "replica-1")).await;
    let start = request(1, true);
    assert_eq!(scene.store.call(reserve(&start, held.fence, LEASE)).await, Ok(Reserved::Granted));
    scene.lose_reply_to(&start.request.run.to_string());
    // Asked again, there is nothing left to release.
    assert_eq!(release(&scene.store, &start).await, Ok(false));
    assert_eq!(release(&scene.store, &start).await, Ok(false));
}
