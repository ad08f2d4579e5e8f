//! Servers that die, hang and come back.

use std::time::{Duration, Instant};

use interlock_backend::Effect;
use interlock_backend_redis::connect::{Connection, SendErrorKind};
use interlock_poll::until;
use interlock_servers::{Redis, RedisOptions};

use super::{get, open, set, settings};

async fn server() -> Redis {
    Redis::start(RedisOptions::default()).await.unwrap()
}

#[tokio::test]
async fn a_killed_server_is_found_again_as_another_store() {
    let mut server = server().await;
    let connection = open(&server.url()).await;
    set(&connection, "a", "1").await.unwrap();
    server.kill().await.unwrap();
    until("the loss is noticed without sending", async || !connection.is_connected()).await;
    let asked_at = Instant::now();
    let error = set(&connection, "a", "2").await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::NotDone, SendErrorKind::NotConnected), "{error}");
    assert!(asked_at.elapsed() >= Duration::from_millis(300), "a command waits a moment for the connection");
    let all = connection.send_all(&[redis::cmd("PING"), redis::cmd("PING")]).await;
    assert!(all.len() == 2 && all.iter().all(Result::is_err));
    assert_eq!(connection.commands_sent(), 1, "what was not sent is not counted");

    server.start_again().await.unwrap();
    until("it is connected again", async || connection.is_connected()).await;
    assert_eq!(get(&connection, "a").await.unwrap().as_deref(), Some("1"));
    assert_eq!(connection.store_changes(), 1);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_made_again_to_the_same_store() {
    let server = server().await;
    let connection = open(&server.url()).await;
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await.unwrap();
    until("commands are answered again", async || get(&connection, "a").await.is_ok()).await;
    assert_eq!(connection.store_changes(), 0);
}

#[tokio::test]
async fn a_server_that_hangs_leaves_the_effect_unknown_and_goes_on_when_it_wakes() {
    let server = server().await;
    let connection = open(&server.url()).await;
    server.pause().unwrap();
    let error = set(&connection, "late", "1").await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::Unknown, SendErrorKind::Lost), "{error}");
    until("the silent connection is given up", async || !connection.is_connected()).await;
    let error = set(&connection, "later", "1").await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::NotDone, SendErrorKind::NotConnected), "{error}");

    server.resume().unwrap();
    until("commands are answered again", async || set(&connection, "after", "1").await.is_ok()).await;
    until("what was unknown has happened", async || get(&connection, "late").await.unwrap().is_some()).await;
    assert_eq!(get(&connection, "later").await.unwrap(), None);
    assert_eq!(connection.store_changes(), 0);
}

#[tokio::test]
async fn a_slow_command_does_not_cost_the_connection() {
    let server = server().await;
    let connection = open(&server.url()).await;
    let id = async || connection.send(&redis::cmd("CLIENT").arg("ID").take(), false).await;
    let before = id().await.unwrap();
    let slow = redis::cmd("BLPOP").arg("nothing").arg("0.6").take();
    let error = connection.send(&slow, true).await.unwrap_err();
    assert_eq!(error.effect, Effect::Unknown);
    until("commands are answered again", async || get(&connection, "a").await.is_ok()).await;
    assert_eq!(id().await.unwrap(), before, "it is the same connection");
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_is_left() {
    let (master, other) = (server().await, server().await);
    let connection = open(&master.url()).await;
    master.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).await.unwrap();
    until("it is refused", async || set(&connection, "a", "1").await.is_err()).await;
    let error = set(&connection, "a", "1").await.unwrap_err();
    assert_eq!(error.effect, Effect::NotDone, "{error}");
    until("the connection is given up", async || !connection.is_connected()).await;
    master.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    until("it is used again", async || set(&connection, "a", "1").await.is_ok()).await;
    assert_eq!(connection.store_changes(), 1, "the history of writes is another one");
}

#[tokio::test]
async fn the_last_connection_dropped_closes_it() {
    let server = server().await;
    let connection = Connection::open(settings(&server.url())).await.unwrap();
    let clone = connection.clone();
    drop(connection);
    assert!(get(&clone, "a").await.is_ok());
    let clients = async || server.command(&["CLIENT", "LIST"]).await.unwrap();
    assert_eq!(clients().await.lines().count(), 2, "ours, and the one that asks");
    drop(clone);
    until("only the asking client is left", async || clients().await.lines().count() == 1).await;
}
