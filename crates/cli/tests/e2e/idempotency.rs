//! A key starts one run.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::server::{Caller, Server};

async fn acme(server: &Server, cap: u32) -> Caller {
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(cap).await;
    caller
}

#[tokio::test]
async fn a_hundred_starts_at_once_with_one_key_make_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = acme(&server, 100).await;
    let input = json!({"n": 1});
    let answers = join_all((0..100).map(|_| caller.start("job", Some("one"), &input))).await;
    let runs: BTreeSet<String> =
        answers.iter().map(|answer| answer.clone().expect(200).text("run_id")).collect();
    assert_eq!(runs.len(), 1);
    let fresh = answers.iter().filter(|answer| answer.body["replayed"] == json!(false)).count();
    assert_eq!(fresh, 1);
    let replayed = answers.iter().find(|answer| answer.body["replayed"] == json!(true)).unwrap();
    assert_eq!(replayed.headers["idempotent-replayed"], "true");
}

#[tokio::test]
async fn the_same_key_with_another_payload_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = acme(&server, 10).await;
    let run = caller.start("job", Some("k"), &json!({"a": 1, "b": 2})).await.expect(200).text("run_id");
    let again = caller.start("job", Some("k"), &json!({"b": 2, "a": 1})).await.expect(200);
    assert_eq!((again.text("run_id"), &again.body["replayed"]), (run.clone(), &json!(true)));
    let other = caller.start("job", Some("k"), &json!({"a": 1, "b": 3})).await.expect(422);
    assert_eq!((other.text("code"), other.text("run_id")), ("idempotency_key_reused".to_owned(), run));
}

#[tokio::test]
async fn a_refused_key_starts_when_a_slot_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = acme(&server, 1).await;
    let blocking = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    caller.start("job", Some("retry-after-limit"), &json!({})).await.expect(429);
    let job = caller.claim("w", "work", 1).await.remove(0);
    caller.complete(&job, &json!({})).await.expect(200);
    caller.ended(&blocking).await;
    let answer = caller.start("job", Some("retry-after-limit"), &json!({})).await.expect(200);
    assert_eq!(answer.body["replayed"], json!(false));
    assert_ne!(answer.text("run_id"), blocking);
}

#[tokio::test]
async fn two_tenants_with_the_same_key_have_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let first = acme(&server, 1).await.start("job", Some("k"), &json!({})).await.expect(200).text("run_id");
    let globex = server.caller("globex");
    globex.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let second = globex.start("job", Some("k"), &json!({})).await.expect(200).text("run_id");
    assert_ne!(first, second);
    // A tenant does not see the other's run.
    globex.get(&format!("/workflow-runs/{first}")).await.expect(404);
}

#[tokio::test]
async fn a_retry_after_a_closed_connection_starts_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = acme(&server, 500).await;
    for number in 0..40 {
        let key = format!("hang-up-{number}");
        send_and_hang_up(&server, &key, number).await;
        let retry = caller.start("job", Some(&key), &json!({"n": number})).await.expect(200).text("run_id");
        let again = caller.start("job", Some(&key), &json!({"n": number})).await.expect(200).text("run_id");
        assert_eq!(retry, again);
        assert_eq!(caller.run(&retry).await["idempotency_key"], json!(key));
    }
    let page = caller.get("/workflow-runs?limit=500").await.expect(200);
    let runs = page.body["items"].as_array().unwrap();
    assert_eq!(runs.len(), 40, "each key starts exactly one run");
}

/// Sends a start, all of it or a part, and closes the connection without reading.
async fn send_and_hang_up(server: &Server, key: &str, number: usize) {
    let body = json!({"n": number}).to_string();
    let request = format!(
        "POST /api/v1/workflows/job/runs HTTP/1.1\r\nHost: localhost\r\nX-Tenant-ID: acme\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = if number.is_multiple_of(4) { request.len() - 3 } else { request.len() };
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(&request.as_bytes()[..sent]).await.unwrap();
}

#[tokio::test]
async fn a_replay_of_a_deleted_run_reports_the_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = acme(&server, 1).await;
    let run = caller.start("job", Some("k"), &json!({})).await.expect(200).text("run_id");
    let path = format!("/workflow-runs/{run}");
    caller.try_send(reqwest::Method::DELETE, &path, None, &Value::Null).await.unwrap().expect(204);
    caller.get(&path).await.expect(404);
    let replay = caller.start("job", Some("k"), &json!({})).await.expect(200);
    assert_eq!((replay.text("run_id"), replay.text("status")), (run, "deleted".to_owned()));
}
