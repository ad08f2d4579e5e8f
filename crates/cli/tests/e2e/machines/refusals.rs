//! A server does not start on what it cannot use: it says why and exits with 1.

use std::process::{Command, Output};

use interlock_servers::{Nats, NatsOptions, Redis, RedisCluster, RedisOptions};

use crate::secrets;
use crate::server::BINARY;

/// A password, and another one.
const RIGHT: &str = "rightpasswordofatest";
const WRONG: &str = "wrongpasswordofatest";

pub(super) fn serve(redis: &str, nats: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["serve", "--listen", "127.0.0.1:0", "--redis", redis, "--nats", nats]);
    command.args(arguments);
    secrets::record_of(&command);
    command.output().unwrap()
}

/// Asserts the exit code, and that the error contains these words.
pub(super) fn expect(output: &Output, code: i32, words: &[&str]) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    for word in words {
        assert!(printed.contains(word), "{word:?} is not in: {printed}");
    }
}

async fn nats() -> Nats {
    Nats::start(NatsOptions::default()).await.unwrap()
}

#[tokio::test]
async fn an_unreachable_redis_is_refused() {
    let nats = nats().await;
    expect(&serve("redis://127.0.0.1:1", &nats.url(), &[]), 1, &["127.0.0.1:1", "cannot be reached"]);
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_shown() {
    let options = RedisOptions { password: Some(RIGHT.to_owned()), ..RedisOptions::default() };
    let (redis, nats) = (Redis::start(options).await.unwrap(), nats().await);
    let output = serve(&redis.url().replace(RIGHT, WRONG), &nats.url(), &[]);
    expect(&output, 1, &["password"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains(WRONG));
}

#[tokio::test]
async fn a_redis_that_evicts_keys_is_refused() {
    let options = RedisOptions {
        arguments: ["--maxmemory-policy", "allkeys-lru"].map(str::to_owned).to_vec(),
        ..RedisOptions::default()
    };
    let (redis, nats) = (Redis::start(options).await.unwrap(), nats().await);
    expect(&serve(&redis.url(), &nats.url(), &[]), 1, &["allkeys-lru", "noeviction"]);
}

#[tokio::test]
async fn data_of_a_newer_release_is_refused() {
    let (redis, nats) = (Redis::start(RedisOptions::default()).await.unwrap(), nats().await);
    redis.command(&["SET", "sys:schema", "99"]).await.unwrap();
    expect(&serve(&redis.url(), &nats.url(), &[]), 1, &["newer release"]);
}

#[tokio::test]
async fn a_durability_that_redis_does_not_provide_is_refused() {
    let options =
        RedisOptions { append_only: interlock_servers::AppendOnly::EverySecond, ..RedisOptions::default() };
    let (redis, nats) = (Redis::start(options).await.unwrap(), nats().await);
    expect(&serve(&redis.url(), &nats.url(), &["--durability", "fsync"]), 1, &["appendfsync always"]);
}

#[tokio::test]
async fn an_unreachable_nats_is_refused() {
    let redis = Redis::start(RedisOptions::default()).await.unwrap();
    expect(&serve(&redis.url(), "nats://127.0.0.1:1", &[]), 1, &["NATS at 127.0.0.1:1", "cannot be reached"]);
}

#[tokio::test]
async fn nats_without_jetstream_is_refused() {
    let redis = Redis::start(RedisOptions::default()).await.unwrap();
    let nats = Nats::start(NatsOptions { jet_stream: false, ..NatsOptions::default() }).await.unwrap();
    expect(&serve(&redis.url(), &nats.url(), &[]), 1, &["JetStream"]);
}

#[tokio::test]
async fn a_wrong_password_of_nats_is_refused_and_not_shown() {
    let redis = Redis::start(RedisOptions::default()).await.unwrap();
    let user = Some(("ada".to_owned(), RIGHT.to_owned()));
    let nats = Nats::start(NatsOptions { user, ..NatsOptions::default() }).await.unwrap();
    let output = serve(&redis.url(), &nats.url().replace(RIGHT, WRONG), &[]);
    expect(&output, 1, &["NATS", "password"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains(WRONG));
}

#[tokio::test]
async fn a_cluster_without_a_redis_for_inputs_is_refused() {
    let (cluster, nats) = (RedisCluster::start(3).await.unwrap(), nats().await);
    expect(&serve(&cluster.url(), &nats.url(), &[]), 1, &["--blob-redis"]);
}

#[test]
fn redis_without_nats_is_refused() {
    let output = Command::new(BINARY).args(["serve", "--redis", "redis://127.0.0.1:1"]).output().unwrap();
    expect(&output, 2, &["--nats"]);
}
