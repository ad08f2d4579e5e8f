//! What is checked before a store is trusted.

use interlock_backend::Effect;
use interlock_backend_redis::connect::{ConnectSettings, Connection, SendErrorKind};
use interlock_servers::{AppendOnly, Redis, RedisOptions};

use super::{get, open, refusal, set, settings};

async fn server(arguments: &[&str]) -> Redis {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Redis::start(RedisOptions { arguments, ..RedisOptions::default() }).await.unwrap()
}

#[tokio::test]
async fn commands_are_answered_and_counted() {
    let server = server(&[]).await;
    let connection = open(&server.url()).await;
    assert_eq!(connection.commands_sent(), 0);
    set(&connection, "a", "1").await.unwrap();
    assert_eq!(get(&connection, "a").await.unwrap().as_deref(), Some("1"));

    let commands =
        [redis::cmd("GET").arg("a").take(), redis::cmd("LLEN").arg("a").take(), redis::cmd("PING")];
    let answers = connection.send_all(&commands).await;

    let [value, wrong_type, pong] = <[_; 3]>::try_from(answers).unwrap();
    assert_eq!(redis::from_redis_value::<String>(value.unwrap()).unwrap(), "1");
    let wrong_type = wrong_type.unwrap_err();
    assert_eq!((wrong_type.effect, wrong_type.kind), (Effect::NotDone, SendErrorKind::Refused));
    assert_eq!(redis::from_redis_value::<String>(pong.unwrap()).unwrap(), "PONG");
    assert!(connection.send_all(&[]).await.is_empty());
    assert_eq!(connection.commands_sent(), 5);
    assert!(connection.is_connected() && !connection.is_cluster());
    assert_eq!(connection.store_changes(), 0);
}

#[tokio::test]
async fn a_script_is_missed_and_its_own_failure_leaves_the_effect_unknown() {
    let server = server(&[]).await;
    let connection = open(&server.url()).await;
    let missing = redis::cmd("EVALSHA").arg("0".repeat(40)).arg(0).take();
    let missing = connection.send(&missing, true).await.unwrap_err();
    assert_eq!((missing.effect, missing.kind), (Effect::NotDone, SendErrorKind::NoScript));
    for script in [
        "redis.call('SET', 'half', '1') error('boom')",
        "redis.call('SET', 'half', '1') redis.call('LLEN', 'half')",
    ] {
        let failed = connection.send(redis::cmd("EVAL").arg(script).arg(0), true).await.unwrap_err();
        assert_eq!((failed.effect, failed.kind), (Effect::Unknown, SendErrorKind::Refused), "{failed}");
    }
    assert_eq!(get(&connection, "half").await.unwrap().as_deref(), Some("1"));
}

#[tokio::test]
async fn a_password_is_needed_and_never_shown() {
    let password = Some("correcthorse".to_owned());
    let server = Redis::start(RedisOptions { password, ..RedisOptions::default() }).await.unwrap();
    let connection = open(&server.url()).await;
    set(&connection, "a", "1").await.unwrap();
    assert!(!format!("{connection:?}").contains("correcthorse"));

    let wrong = refusal(settings(&format!("redis://:batterystaple@127.0.0.1:{}", server.port()))).await;
    assert!(
        wrong.contains("refuses the user or the password") && !wrong.contains("batterystaple"),
        "{wrong}"
    );
    let none = refusal(settings(&format!("redis://127.0.0.1:{}", server.port()))).await;
    assert!(none.contains("refuses the user or the password"), "{none}");
}

#[tokio::test]
async fn a_user_needs_permission_for_what_is_sent() {
    let server = server(&[]).await;
    let rules = ["ACL", "SETUSER", "app", "on", ">pass1", "~*", "+@all", "-config", "-flushall"];
    server.command(&rules).await.unwrap();
    let connection = open(&format!("redis://app:pass1@127.0.0.1:{}", server.port())).await;
    set(&connection, "a", "1").await.unwrap();
    let refused = connection.send(&redis::cmd("FLUSHALL"), true).await.unwrap_err();
    assert_eq!((refused.effect, refused.kind), (Effect::NotDone, SendErrorKind::Refused));

    server.command(&["ACL", "SETUSER", "app", "-set"]).await.unwrap();
    let denied = refusal(settings(&format!("redis://app:pass1@127.0.0.1:{}", server.port()))).await;
    assert!(denied.contains("ACL"), "{denied}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let mut server = server(&[]).await;
    let url = server.url();
    server.kill().await.unwrap();
    let refused = refusal(settings(&url)).await;
    assert!(refused.contains(&format!("127.0.0.1:{} cannot be reached", server.port())), "{refused}");
    let nowhere = refusal(settings("redis://host.invalid:1")).await;
    assert!(nowhere.contains("host.invalid:1 cannot be reached"), "{nowhere}");
}

#[tokio::test]
async fn a_server_that_evicts_keys_is_refused() {
    let server = server(&["--maxmemory-policy", "allkeys-lru"]).await;
    let refused = refusal(settings(&server.url())).await;
    assert!(
        refused.contains("allkeys-lru") && refused.contains("Set maxmemory-policy noeviction"),
        "{refused}"
    );
}

#[tokio::test]
async fn data_of_a_newer_release_is_refused() {
    let server = server(&[]).await;
    drop(open(&server.url()).await);
    assert_eq!(server.command(&["GET", "sys:schema"]).await.unwrap(), "1");
    drop(open(&server.url()).await);
    for (value, expected) in [("2", "newer release"), ("many", "cannot be read")] {
        server.command(&["SET", "sys:schema", value]).await.unwrap();
        let refused = refusal(settings(&server.url())).await;
        assert!(refused.contains(expected), "{refused}");
    }
    // Another prefix is another store in the same database.
    let blue = ConnectSettings { prefix: "blue".to_owned(), ..settings(&server.url()) };
    let blue = Connection::open(blue).await.unwrap();
    assert_eq!((blue.key_prefix(), blue.lock_prefix()), ("blue:", "blue:"));
    assert_eq!(server.command(&["GET", "blue:sys:schema"]).await.unwrap(), "1");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = server(&[]).await;
    let replica = server(&["--replicaof", "127.0.0.1", &master.port().to_string()]).await;
    let refused = refusal(settings(&replica.url())).await;
    assert!(refused.contains("is a replica"), "{refused}");
}

#[tokio::test]
async fn several_hosts_that_are_no_cluster_are_refused() {
    let server = server(&[]).await;
    let refused = refusal(settings(&format!("{},127.0.0.1:1", server.url()))).await;
    assert!(refused.contains("not in cluster mode"), "{refused}");
}

#[tokio::test]
async fn a_server_that_keeps_nothing_is_warned_about() {
    let options = RedisOptions { append_only: AppendOnly::Off, ..RedisOptions::default() };
    let forgetful = Redis::start(options).await.unwrap();
    let connection = open(&forgetful.url()).await;
    assert!(connection.warnings().iter().any(|warning| warning.contains("nothing on disk")));
    assert!(connection.durability_in_words().contains("memory of the master only"));
    assert!(open(&server(&[]).await.url()).await.warnings().is_empty());
}
