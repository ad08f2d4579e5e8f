//! What is waited for before a write is acknowledged.

use interlock_backend::Effect;
use interlock_backend_redis::connect::{ConnectSettings, Connection, Durability, SendErrorKind};
use interlock_poll::until;
use interlock_servers::{AppendOnly, Redis, RedisOptions};

use super::{get, refusal, set, settings};

fn with(durability: Durability, server: &Redis) -> ConnectSettings {
    ConnectSettings { durability, ..settings(&server.url()) }
}

async fn server(append_only: AppendOnly, arguments: &[&str]) -> Redis {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Redis::start(RedisOptions { append_only, arguments, ..RedisOptions::default() }).await.unwrap()
}

#[tokio::test]
async fn fsync_is_promised_only_by_a_server_that_always_syncs() {
    let strong = server(AppendOnly::Always, &[]).await;
    let connection = Connection::open(with(Durability::Fsync, &strong)).await.unwrap();
    assert_eq!(connection.durability_in_words(), "an acknowledged write is on the disk of the master");
    set(&connection, "a", "1").await.unwrap();

    let weak = server(AppendOnly::EverySecond, &[]).await;
    let refused = refusal(with(Durability::Fsync, &weak)).await;
    assert!(refused.contains("appendfsync is everysec. Set appendfsync always."), "{refused}");
    let none = server(AppendOnly::Off, &[]).await;
    let refused = refusal(with(Durability::Fsync, &none)).await;
    assert!(refused.contains("Set appendonly yes"), "{refused}");
    let pausing = server(AppendOnly::Always, &["--no-appendfsync-on-rewrite", "yes"]).await;
    let refused = refusal(with(Durability::Fsync, &pausing)).await;
    assert!(refused.contains("no-appendfsync-on-rewrite"), "{refused}");
}

#[tokio::test]
async fn a_write_is_acknowledged_when_a_replica_has_it_and_unknown_when_none_has() {
    let master = server(AppendOnly::EverySecond, &[]).await;
    let port = master.port().to_string();
    let replica = server(AppendOnly::EverySecond, &["--replicaof", "127.0.0.1", &port]).await;
    let connection = Connection::open(with(Durability::Replicas(1), &master)).await.unwrap();
    until("the replica follows", async || set(&connection, "a", "1").await.is_ok()).await;
    let before = connection.commands_sent();
    set(&connection, "b", "1").await.unwrap();
    assert_eq!(connection.commands_sent(), before + 1, "WAIT is not counted");
    assert_eq!(replica.command(&["GET", "b"]).await.unwrap(), "1");

    replica.pause().unwrap();
    let error = set(&connection, "c", "1").await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::Unknown, SendErrorKind::Lost));
    assert_eq!(error.reason, "written, but only 0 of 1 replicas have it");
    assert_eq!(get(&connection, "c").await.unwrap().as_deref(), Some("1"), "the master has it");
    // What waits for no replica goes its own way meanwhile: no read queues behind a WAIT.
    let writing = tokio::spawn({
        let connection = connection.clone();
        async move { futures_util::future::join_all((0..4).map(|_| set(&connection, "e", "1"))).await }
    });
    assert_eq!(get(&connection, "b").await.unwrap().as_deref(), Some("1"));
    assert!(!writing.is_finished(), "the writes still wait for their replica");
    writing.await.unwrap();

    replica.resume().unwrap();
    until("the replica catches up", async || set(&connection, "d", "1").await.is_ok()).await;
}
