//! A Redis Cluster.

use interlock_backend::Effect;
use interlock_backend_redis::connect::{ConnectSettings, Connection, Durability, SendErrorKind};
use interlock_poll::until;
use interlock_servers::RedisCluster;

use super::{get, open, refusal, set, settings};

#[tokio::test]
async fn a_cluster_is_noticed_and_every_slot_reached() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let connection = open(&cluster.url()).await;
    assert!(connection.is_cluster() && connection.is_connected());
    for number in 0..100 {
        set(&connection, &format!("key-{number}"), &number.to_string()).await.unwrap();
    }
    let reads: Vec<_> =
        (0..100).map(|number| redis::cmd("GET").arg(format!("key-{number}")).take()).collect();
    for (number, answer) in connection.send_all(&reads).await.into_iter().enumerate() {
        assert_eq!(redis::from_redis_value::<usize>(answer.unwrap()).unwrap(), number);
    }
    assert_eq!(connection.commands_sent(), 200);
}

#[tokio::test]
async fn a_script_runs_where_its_keys_are() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let connection = open(&cluster.url()).await;
    let script = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])";
    let run = |sha: &str, tag: usize| {
        let keys = [format!("{{{tag}}}:a"), format!("{{{tag}}}:b")];
        redis::cmd("EVALSHA").arg(sha).arg(2).arg(&keys).arg(tag).take()
    };
    let missing = connection.send(&run(&"0".repeat(40), 1), true).await.unwrap_err();
    assert_eq!((missing.effect, missing.kind), (Effect::NotDone, SendErrorKind::NoScript));
    let loaded = connection.send(redis::cmd("SCRIPT").arg("LOAD").arg(script), true).await.unwrap();
    let sha: String = redis::from_redis_value(loaded).unwrap();
    for tag in 1..50 {
        let answer = connection.send(&run(&sha, tag), true).await.unwrap();
        assert_eq!(redis::from_redis_value::<usize>(answer).unwrap(), tag);
    }
    let crossing = redis::cmd("EVALSHA").arg(&sha).arg(2).arg("a").arg("b").arg(1).take();
    let crossing = connection.send(&crossing, true).await.unwrap_err();
    assert_eq!(crossing.effect, Effect::NotDone, "{crossing}");
}

#[tokio::test]
async fn a_slot_that_moves_is_followed() {
    const SLOT_OF_FOO: &str = "12182";
    let cluster = RedisCluster::start(3).await.unwrap();
    let connection = open(&cluster.url()).await;
    let from = cluster.command_on(2, &["CLUSTER", "MYID"]).await.unwrap();
    let to = cluster.command_on(0, &["CLUSTER", "MYID"]).await.unwrap();
    cluster.command_on(0, &["CLUSTER", "SETSLOT", SLOT_OF_FOO, "IMPORTING", &from]).await.unwrap();
    cluster.command_on(2, &["CLUSTER", "SETSLOT", SLOT_OF_FOO, "MIGRATING", &to]).await.unwrap();
    set(&connection, "foo", "asked").await.unwrap();
    assert_eq!(get(&connection, "foo").await.unwrap().as_deref(), Some("asked"));
    for node in 0..3 {
        cluster.command_on(node, &["CLUSTER", "SETSLOT", SLOT_OF_FOO, "NODE", &to]).await.unwrap();
    }
    set(&connection, "foo", "moved").await.unwrap();
    assert_eq!(get(&connection, "foo").await.unwrap().as_deref(), Some("moved"));
}

#[tokio::test]
async fn a_node_that_restarts_is_reached_again_as_another_store() {
    let mut cluster = RedisCluster::start(3).await.unwrap();
    let connection = open(&cluster.urls().join(",").replace(",redis://", ",")).await;
    set(&connection, "foo", "1").await.unwrap();
    cluster.nodes_mut()[2].kill().await.unwrap();
    until("the loss is reported", async || set(&connection, "foo", "2").await.is_err()).await;
    until("nothing is sent to it any more", async || {
        set(&connection, "foo", "2").await.is_err_and(|error| error.effect == Effect::NotDone)
    })
    .await;
    cluster.nodes_mut()[2].start_again().await.unwrap();
    until("it is reached again", async || set(&connection, "foo", "3").await.is_ok()).await;
    until("the restart is noticed", async || connection.store_changes() > 0).await;
    until("it is connected", async || connection.is_connected()).await;
}

#[tokio::test]
async fn replicas_are_not_waited_for_on_a_cluster_but_fsync_is_checked() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let with = |durability| ConnectSettings { durability, ..settings(&cluster.url()) };
    let refused = refusal(with(Durability::Replicas(1))).await;
    assert!(refused.contains("not offered on a Redis Cluster"), "{refused}");
    assert!(Connection::open(with(Durability::Fsync)).await.is_ok());
    cluster.command_on(1, &["CONFIG", "SET", "appendfsync", "everysec"]).await.unwrap();
    let refused = refusal(with(Durability::Fsync)).await;
    assert!(refused.contains("appendfsync is everysec"), "{refused}");
}
