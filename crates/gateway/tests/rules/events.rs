//! Server-sent events.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, local, one_step};
use crate::watching::Watch;

#[tokio::test]
async fn a_stream_follows_the_timeline_and_ends_with_the_run() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let mut watch = Watch::open(&server, &run, None).await;
    let first = watch.next().await.unwrap();
    assert_eq!((first.id, first.kind.as_str()), (1, "run_status"));
    let job = server.claim_one("w").await;
    server.report(&job, "progress", json!({"percent": 10})).await.ok(200);
    while watch.next().await.unwrap().kind != "step_progress" {}
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    let rest = watch.rest().await;
    let last = rest.last().unwrap();
    assert_eq!((last.kind.as_str(), &last.item["status"]), ("run_status", &json!("succeeded")));
    let path = format!("/api/v1/workflow-runs/{run}/timeline?limit=500");
    let timeline = server.get(&path).send().await.ok(200);
    let items = timeline["items"].as_array().unwrap();
    let streamed: Vec<Value> =
        Watch::open(&server, &run, None).await.rest().await.into_iter().map(|seen| seen.item).collect();
    assert_eq!(items, &streamed);
    for member in "seq time type step_id job_id status message data".split_whitespace() {
        assert!(items.iter().all(|item| item.get(member).is_some()), "{member}");
    }
}

#[tokio::test]
async fn a_stream_continues_after_the_last_event_id() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    let all = Watch::open(&server, &run, None).await.rest().await;
    assert!(all.len() > 2, "{all:?}");
    for seen in 0..=all.len() {
        let rest = Watch::open(&server, &run, Some(seen as u64)).await.rest().await;
        let ids: Vec<u64> = rest.iter().map(|event| event.id).collect();
        assert_eq!(ids, (seen as u64 + 1..=all.len() as u64).collect::<Vec<_>>());
    }
    let path = format!("/api/v1/workflow-runs/{run}/events?last_event_id={}", all.len() - 1);
    let answer = server.get(&path).send().await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(String::from_utf8(answer.body).unwrap().matches("data: ").count(), 1);
    let bad =
        server.get(&format!("/api/v1/workflow-runs/{run}/events")).header("last-event-id", "x").send().await;
    bad.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_silent_stream_sends_keep_alives() {
    let settings = interlock_gateway::Settings { stream_keep_alive: Duration::from_millis(20), ..local() };
    let server = Server::with(settings, None).await.unwrap();
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    Watch::open(&server, &run, None).await.until_text(": still here").await;
}

#[tokio::test]
async fn the_number_of_streams_is_bounded() {
    let settings = interlock_gateway::Settings { streams_max: 1, ..local() };
    let server = Server::with(settings, None).await.unwrap();
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let mut first = Watch::open(&server, &run, None).await;
    first.next().await.unwrap();
    let second = server.get(&format!("/api/v1/workflow-runs/{run}/events")).send().await;
    second.problem(503, "too_many_connections");
}

#[tokio::test]
async fn a_stream_ends_when_its_run_is_deleted() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let mut watch = Watch::open(&server, &run, None).await;
    watch.next().await.unwrap();
    server.delete(&format!("/api/v1/workflow-runs/{run}")).send().await.ok(204);
    watch.rest().await;
    server.get(&format!("/api/v1/workflow-runs/{run}/events")).send().await.problem(404, "not_found");
}
