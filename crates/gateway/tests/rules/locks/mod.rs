//! Locks over HTTP.

mod bounds;
mod failures;
mod holding;
mod looking;
mod waiting;

use interlock_poll::until_matches;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::Answer;
use crate::server::Server;

/// A request for a lease that outlives every test.
fn request(resource: &str, owner: &str) -> Value {
    json!({"resource": resource, "owner": owner, "ttl_ms": 600_000})
}

fn with(mut body: Value, name: &str, value: impl Into<Value>) -> Value {
    body[name] = value.into();
    body
}

async fn acquire(server: &Server, body: &Value) -> Answer {
    server.post("/api/v1/locks/acquire").json(body).send().await
}

/// Acquires a lock. Asserts that it is free.
async fn take(server: &Server, resource: &str, owner: &str) -> Value {
    acquire(server, &request(resource, owner)).await.ok(200)
}

fn token_of(grant: &Value) -> Value {
    json!({"resource": grant["resource"], "token": grant["token"]})
}

async fn release(server: &Server, grant: &Value) -> Answer {
    server.post("/api/v1/locks/release").json(&token_of(grant)).send().await
}

async fn renew(server: &Server, grant: &Value, ttl_ms: u64) -> Answer {
    server.post("/api/v1/locks/renew").json(&with(token_of(grant), "ttl_ms", ttl_ms)).send().await
}

async fn show(server: &Server, resource: &str) -> Answer {
    server.get(&format!("/api/v1/locks?resource={resource}")).send().await
}

/// The history of a lock as causes, the newest first.
async fn causes(server: &Server, resource: &str) -> Vec<String> {
    let page = server.get(&format!("/api/v1/locks/history?resource={resource}")).send().await.ok(200);
    let cause = |event: &Value| event["cause"].as_str().unwrap().to_owned();
    page["items"].as_array().unwrap().iter().map(cause).collect()
}

/// Requests a lock in the background and waits for it.
fn wait_for(server: &Server, body: Value) -> JoinHandle<Answer> {
    tokio::spawn(server.post("/api/v1/locks/acquire").json(&with(body, "wait_ms", 60_000)).send())
}

/// Waits until this number of requests is in the queue.
async fn until_waiting(server: &Server, resource: &str, count: u64) {
    let lock = async || show(server, resource).await.ok(200);
    until_matches(&format!("{count} wait"), lock, |lock| lock["waiting"] == count).await;
}
