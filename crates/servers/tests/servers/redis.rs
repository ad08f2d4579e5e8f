//! Redis servers start, answer, restart with their data, and end with their guards.

use std::path::PathBuf;

use interlock_servers::{AppendOnly, Redis, RedisCluster, RedisOptions, Sentinel};

fn process_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

#[tokio::test]
async fn a_killed_redis_restarts_on_its_port_with_what_it_acknowledged() {
    let mut redis = Redis::start(RedisOptions::default()).await.unwrap();
    let (port, first) = (redis.port(), redis.pid());
    assert_eq!(redis.command(&["SET", "key", "value"]).await.unwrap(), "OK");

    redis.kill().await.unwrap();
    assert!(!process_of(first).exists());
    redis.command(&["PING"]).await.unwrap_err();
    redis.start_again().await.unwrap();

    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid(), first);
    assert_eq!(redis.command(&["GET", "key"]).await.unwrap(), "value");
}

#[tokio::test]
async fn a_redis_without_durability_restarts_empty() {
    let options = RedisOptions { append_only: AppendOnly::Off, ..RedisOptions::default() };
    let mut redis = Redis::start(options).await.unwrap();
    redis.command(&["SET", "key", "value"]).await.unwrap();
    redis.kill().await.unwrap();
    redis.start_again().await.unwrap();
    assert_eq!(redis.command(&["DBSIZE"]).await.unwrap(), "0");
}

#[tokio::test]
async fn a_redis_ends_with_its_guard() {
    // In a task, because tests that start servers in tasks need these futures to be `Send`.
    let redis = tokio::spawn(Redis::start(RedisOptions::default())).await.unwrap().unwrap();
    let (process, folder) = (process_of(redis.pid()), redis.folder().to_owned());
    assert!(process.exists() && folder.exists());
    redis.pause().unwrap();
    drop(redis);
    assert!(!process.exists() && !folder.exists());
}

#[tokio::test]
async fn options_reach_the_server() {
    let options = RedisOptions {
        append_only: AppendOnly::EverySecond,
        password: Some("secret".to_owned()),
        arguments: vec!["--maxmemory".to_owned(), "123456789".to_owned()],
    };
    let redis = Redis::start(options).await.unwrap();
    assert_eq!(redis.url(), format!("redis://:secret@127.0.0.1:{}", redis.port()));
    let settings = redis.command(&["CONFIG", "GET", "maxmemory", "appendfsync"]).await.unwrap();
    assert!(settings.contains("123456789") && settings.contains("everysec"), "{settings}");
}

#[tokio::test]
async fn an_error_that_redis_answers_is_returned() {
    let redis = Redis::shared().await.unwrap();
    redis.command(&["SET", "key", "value"]).await.unwrap();
    let error = redis.command(&["INCR", "key"]).await.unwrap_err().to_string();
    assert!(error.contains("not an integer"), "{error}");
}

#[tokio::test]
async fn the_error_of_a_redis_that_cannot_start_has_the_reason() {
    let arguments = vec!["--no-such-setting".to_owned(), "1".to_owned()];
    let started = Redis::start(RedisOptions { arguments, ..RedisOptions::default() }).await;
    let error = format!("{:#}", started.err().expect("the setting does not exist"));
    assert!(error.contains("no-such-setting"), "{error}");
}

#[tokio::test]
async fn each_node_of_a_cluster_serves_its_slots_and_restarts_with_them() {
    let mut cluster = tokio::spawn(RedisCluster::start(3)).await.unwrap().unwrap();
    assert_eq!(cluster.urls().len(), 3);
    // The slot of `key` is 12539, in the last third.
    assert_eq!(cluster.command_on(2, &["SET", "key", "value"]).await.unwrap(), "OK");
    let error = cluster.command_on(0, &["GET", "key"]).await.unwrap_err().to_string();
    assert!(error.contains("MOVED 12539"), "{error}");

    let last = &mut cluster.nodes_mut()[2];
    last.kill().await.unwrap();
    last.start_again().await.unwrap();

    assert_eq!(cluster.command_on(2, &["CLUSTER", "COUNTKEYSINSLOT", "12539"]).await.unwrap(), "1");
}

#[tokio::test]
async fn sentinels_fail_over_and_lose_what_was_written_after_the_cut() {
    let mut sentinel = tokio::spawn(Sentinel::start()).await.unwrap().unwrap();
    assert!(sentinel.url().starts_with("redis+sentinel://127.0.0.1:") && sentinel.url().ends_with("/main"));
    sentinel.primary().command(&["SET", "before", "value"]).await.unwrap();
    assert_eq!(sentinel.primary().command(&["WAIT", "1", "5000"]).await.unwrap(), "1");
    sentinel.cut_replication().await.unwrap();
    sentinel.primary().command(&["SET", "after", "value"]).await.unwrap();

    sentinel.primary().kill().await.unwrap();
    sentinel.wait_for_failover().await.unwrap();

    assert_eq!(sentinel.replica().command(&["KEYS", "*"]).await.unwrap(), "before");
}
