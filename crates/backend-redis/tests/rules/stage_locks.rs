//! The locks of our own stages, under names that operators know, and what is written under them.

use std::sync::Arc;

use interlock_backend::verbs::{ReadSnapshot, ReleaseLock, SaveSnapshot};
use interlock_backend::{Store, StoreError};
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_model::lock::{LockName, StageLock};
use interlock_servers::RedisCluster;
use serde_json::{Value, json};

use super::asking::{ask, ends_within, granted, refused, shown};
use super::{LEASE, connect, name, open, server};

const WRITER: LockName = LockName::Stage(StageLock::SnapshotWriter);

#[tokio::test]
async fn every_stages_lock_shows_its_holder_and_nothing_after() {
    let server = server().await;
    let store = open(&server.url()).await;
    for stage in StageLock::ALL {
        let (lock, key) = (LockName::Stage(stage), format!("cordum:{}", stage.key()));
        let held = granted(&store, &ask(&lock, "replica-1")).await;
        let value = shown(&server, &key).await;
        assert_eq!(value["owner"], "replica-1");
        assert_eq!((&value["token"], &value["fence"]), (&json!("call-of-replica-1"), &json!(held.fence)));
        assert!(ends_within(&server, &key, LEASE).await, "{key}");
        assert_eq!(refused(&store, &ask(&lock, "replica-2")).await.holder, Some(name("replica-1")));
        let _ = store.call(ReleaseLock { lock: lock.clone(), token: held.token.clone() }).await.unwrap();
        assert_eq!(shown(&server, &key).await, Value::Null);
    }
}

#[tokio::test]
async fn a_foreign_value_keeps_every_replica_from_a_stages_lock() {
    let server = server().await;
    let store = open(&server.url()).await;
    let lock = LockName::Stage(StageLock::Reconciler);
    server.command(&["SET", "cordum:reconciler:default", "stopped by ops"]).await.unwrap();
    assert_eq!(refused(&store, &ask(&lock, "replica-1")).await.holder, None);
    assert_eq!(server.command(&["GET", "cordum:reconciler:default"]).await.unwrap(), "stopped by ops");
    server.command(&["DEL", "cordum:reconciler:default"]).await.unwrap();
    granted(&store, &ask(&lock, "replica-1")).await;
}

#[tokio::test]
async fn the_snapshot_stands_where_the_contract_says_and_a_late_writer_does_not_change_it() {
    let server = server().await;
    let store = open(&server.url()).await;
    let first = granted(&store, &ask(&WRITER, "replica-1")).await;
    store.call(SaveSnapshot { fence: first.fence, snapshot: r#"{"workers":[]}"#.to_owned() }).await.unwrap();
    assert_eq!(server.command(&["GET", "sys:workers:snapshot"]).await.unwrap(), r#"{"workers":[]}"#);
    let _ = store.call(ReleaseLock { lock: WRITER.clone(), token: first.token.clone() }).await.unwrap();
    let late = store.call(SaveSnapshot { fence: first.fence, snapshot: "late".to_owned() }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: first.fence, current: first.fence }));
    let second = granted(&store, &ask(&WRITER, "replica-2")).await;
    let late = store.call(SaveSnapshot { fence: first.fence, snapshot: "late".to_owned() }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: first.fence, current: second.fence }));
    assert_eq!(store.call(ReadSnapshot).await, Ok(Some(r#"{"workers":[]}"#.to_owned())));
}

#[tokio::test]
async fn on_a_cluster_the_names_are_the_same_and_the_snapshot_is_beside_its_lock() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let store = open(&cluster.url()).await;
    let connection = connect(&cluster.url()).await;
    let get = async |key: &str| {
        let value = connection.send(redis::cmd("GET").arg(key), false).await.unwrap();
        redis::from_redis_value::<Option<String>>(value).unwrap().unwrap_or_default()
    };
    for stage in StageLock::ALL {
        let held = granted(&store, &ask(&LockName::Stage(stage), "replica-1")).await;
        let value: Value = serde_json::from_str(&get(&format!("cordum:{}", stage.key())).await).unwrap();
        assert_eq!(value["fence"], json!(held.fence));
        if LockName::Stage(stage) == WRITER {
            store
                .call(SaveSnapshot { fence: held.fence, snapshot: "who is there".to_owned() })
                .await
                .unwrap();
        }
    }
    assert_eq!(get("sys:workers:snapshot:{cordum:scheduler:snapshot:writer}").await, "who is there");
    assert_eq!(store.call(ReadSnapshot).await, Ok(Some("who is there".to_owned())));
}

#[tokio::test]
async fn with_another_prefix_every_key_of_locks_carries_it() {
    let server = server().await;
    let settings = ConnectSettings::new(server.url().parse().unwrap());
    let settings = ConnectSettings { prefix: "blue".to_owned(), ..settings };
    let store =
        RedisStore::open(Connection::open(settings).await.unwrap(), name("instance-1")).await.unwrap();
    let store = Store::new(Arc::new(store));
    let held = granted(&store, &ask(&WRITER, "replica-1")).await;
    granted(&store, &ask(&super::asking::door(), "ann")).await;
    store.call(SaveSnapshot { fence: held.fence, snapshot: "{}".to_owned() }).await.unwrap();
    let keys = server.command(&["KEYS", "*"]).await.unwrap();
    assert!(keys.lines().all(|key| key.starts_with("blue:")), "{keys}");
    for key in
        ["blue:scheduler:snapshot:writer", "blue:sys:workers:snapshot", "blue:lock:{acme}:deploy/prod:eu%1"]
    {
        assert!(keys.lines().any(|known| known == key), "{key} is not among {keys}");
    }
}
