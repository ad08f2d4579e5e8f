//! Named limits over HTTP.

mod documents;
mod explanations;
mod pauses;
mod queues;
mod system;

use interlock_poll::until_matches;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::server::{Server, one_step};

async fn server() -> Server {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server
}

async fn put(server: &Server, name: &str, document: Value) -> Answer {
    server.put(&format!("/api/v1/limits/{name}")).json(&document).send().await
}

async fn get(server: &Server, name: &str) -> Value {
    server.get(&format!("/api/v1/limits/{name}")).send().await.ok(200)
}

fn start(server: &Server, input: &Value) -> Request {
    server.post("/api/v1/workflows/wf/runs").json(input)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// Ends the run whose job comes next.
async fn end_one(server: &Server) {
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
}

async fn until_status(server: &Server, run: &str, status: &str) -> Value {
    until_matches(
        &format!("{run} is {status}"),
        async || server.view(run).await,
        |run| run["status"] == status,
    )
    .await
}
