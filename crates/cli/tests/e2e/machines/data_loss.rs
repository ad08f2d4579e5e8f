//! Redis loses its data, or has no room for more: every process notices and says so.

use interlock_poll::until;
use serde_json::json;

use super::refusals::{expect, serve};
use super::{Machines, replica};
use crate::alerts::scrape;

/// The status and the text of a readiness check.
async fn readiness(base: &str) -> (u16, String) {
    let answer = reqwest::get(format!("{base}/readyz")).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_flushed_redis_is_noticed_and_its_installation_stays_closed() {
    let machines = Machines::start(1).await;
    let (server, caller) = (&machines.replicas[0], machines.replicas[0].caller("acme"));
    caller.get("/workflows").await.expect(200);
    assert_eq!(readiness(&server.base).await.0, 200);
    caller.post("/keys", json!({"name": "root", "role": "admin"})).await.expect(201);
    caller.get("/workflows").await.expect(401);
    machines.redis.command(&["FLUSHALL"]).await.unwrap();

    until("the loss is noticed", async || readiness(&server.base).await.0 == 503).await;
    assert!(readiness(&server.base).await.1.contains("the store lost its data"));
    assert!(scrape(server).await.contains("\nstore_data_lost 1\n"));
    caller.get("/workflows").await.expect(401);

    let (redis, nats) = (machines.redis.url(), machines.nats.url());
    expect(&serve(&redis, &nats, &[]), 1, &["had API keys", "--admin-key"]);
    let key = "a-new-admin-key-of-a-test";
    let again = replica(&redis, &nats, &["--admin-key", key]);
    assert_eq!(readiness(&again.base).await.0, 200);
    again.caller("acme").get("/workflows").await.expect(401);
}

#[tokio::test]
async fn an_installation_without_keys_starts_again_on_an_empty_redis() {
    let machines = Machines::start(1).await;
    machines.redis.command(&["FLUSHALL"]).await.unwrap();
    let server = &machines.replicas[0];
    until("the loss is noticed", async || readiness(&server.base).await.0 == 503).await;
    let again = machines.replica();
    again.caller("acme").get("/workflows").await.expect(200);
    assert_eq!(readiness(&again.base).await.0, 200);
}

#[tokio::test]
async fn a_redis_without_memory_refuses_writes_as_full_until_it_has_some() {
    let machines = Machines::start(1).await;
    let (server, caller) = (&machines.replicas[0], machines.replicas[0].caller("acme"));
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let memory =
        async |bytes: &str| machines.redis.command(&["CONFIG", "SET", "maxmemory", bytes]).await.unwrap();
    memory("1").await;
    let refused = caller.start("job", Some("k"), &json!({})).await.expect(503);
    assert_eq!(refused.text("code"), "storage_full", "{refused:?}");
    let (status, text) = readiness(&server.base).await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("storage_full"), "{text}");
    caller.get("/workflows").await.expect(200);

    memory("0").await;
    caller.start("job", Some("k"), &json!({})).await.expect(200);
    until("it is ready again", async || readiness(&server.base).await.0 == 200).await;
}
