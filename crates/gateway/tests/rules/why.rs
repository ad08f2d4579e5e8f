//! Whoever asks why something waits is told the cause, who has it, and for how long about.

use interlock_model::TenantId;
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::server::{Server, one_step};

async fn why(server: &Server, query: &str) -> Value {
    server.get(&format!("/api/v1/why?{query}")).send().await.ok(200)
}

/// The first cause, which must have this code.
async fn cause(server: &Server, query: &str, code: &str) -> Value {
    let told = why(server, query).await;
    assert_eq!(told["causes"][0]["code"], code, "{told:#}");
    assert!(!told["causes"][0]["what_to_do"].as_str().unwrap().is_empty());
    told["causes"][0].clone()
}

/// Until the run's first cause has this code.
async fn becomes(server: &Server, run: &str, code: &str) -> Value {
    let look = async {
        loop {
            let told = why(server, &format!("run_id={run}")).await;
            if told["causes"][0]["code"] == code {
                return told["causes"][0].clone();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{run} never becomes {code}"))
}

#[tokio::test]
async fn a_start_that_is_refused_is_told_who_has_the_slots() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 1).await;
    let told = why(&server, "workflow_id=wf").await;
    assert_eq!((&told["state"], &told["causes"][0]["code"]), (&json!("free"), &json!("free")));
    let ended = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    server.ended(&ended).await;
    let run = server.run("wf", &json!({"n": 2})).await;
    let refused = server.post("/api/v1/workflows/wf/runs").json(&json!({"n": 3})).send().await;
    let refused = refused.problem(429, "max_concurrent_runs");
    let cause = cause(&server, "workflow_id=wf", "cap_full").await;
    assert_eq!(cause["holders"][0]["name"], json!(run));
    let (told, sentence) = (cause["detail"].as_str().unwrap(), refused["error"].as_str().unwrap());
    assert!(told.starts_with(sentence), "{told} says {sentence}, as the refusal does");
    assert!(cause["expected_wait_ms"].is_u64(), "one run has ended, so that one can tell: {cause}");
}

#[tokio::test]
async fn a_run_tells_what_each_of_its_steps_waits_for() {
    let server = Server::start().await;
    let retry =
        json!({"max_retries": 1, "initial_backoff_sec": 600, "multiplier": 1, "max_backoff_sec": 600});
    let steps = json!({
        "ask": {"type": "approval"},
        "build": {"type": "worker", "topic": "build", "retry": retry},
        "pause": {"type": "delay", "delay_sec": 600},
    });
    server.save(&json!({"id": "wf", "name": "wf", "steps": steps})).await;
    let run = server.run("wf", &json!({})).await;
    let query = format!("run_id={run}");
    let codes = async || {
        let told = why(&server, &query).await;
        let causes = told["causes"].as_array().unwrap().clone();
        causes.iter().map(|cause| (cause["step_id"].clone(), cause["code"].clone())).collect::<Vec<_>>()
    };
    let job = server.claim_one("w1").await;
    let before = codes().await;
    assert_eq!(before[0], (json!("ask"), json!("approval_open")));
    assert_eq!(before[1], (json!("build"), json!("working")));
    assert_eq!(before[2], (json!("pause"), json!("delay")));
    let working = cause(&server, &format!("job_id={run}:build@1"), "working").await;
    assert_eq!(working["holders"][0]["name"], "w1");
    server.report(&job, "fail", json!({"error": "out of luck", "retryable": true})).await.ok(200);
    let told = async {
        while codes().await[1].1 != "retry_backoff" {
            tokio::task::yield_now().await;
        }
        why(&server, &query).await
    };
    let told = tokio::time::timeout(PATIENCE, told).await.unwrap();
    let (retry, pause) = (&told["causes"][1], &told["causes"][2]);
    assert!(retry["detail"].as_str().unwrap().contains("out of luck"), "{retry}");
    // A retry is spread over its back-off.
    for (cause, shortest) in [(retry, 0), (pause, 500_000)] {
        let wait = cause["expected_wait_ms"].as_u64().unwrap();
        assert!((shortest..=600_000).contains(&wait), "{cause}");
    }
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
    assert_eq!(becomes(&server, &run, "ended").await["detail"], "the run is cancelled");
    cause(&server, &format!("job_id={run}:build@1"), "ended").await;
}

#[tokio::test]
async fn a_lock_tells_its_holder_and_the_same_sentence_as_its_refusal() {
    let server = Server::start().await;
    cause(&server, "resource=doc%2F1", "free").await;
    let asked = json!({"resource": "doc/1", "owner": "ann", "mode": "exclusive", "ttl_ms": 60_000});
    server.post("/api/v1/locks/acquire").json(&asked).send().await.ok(200);
    let held = cause(&server, "resource=doc%2F1", "lock_held").await;
    assert_eq!(held["holders"][0]["name"], "ann");
    assert_eq!(held["position"], 1);
    assert!(held["expected_wait_ms"].as_u64().unwrap() <= 60_000);
    let asked = json!({"resource": "doc/1", "owner": "bob", "mode": "exclusive", "ttl_ms": 60_000});
    let refused = server.post("/api/v1/locks/acquire").json(&asked).send().await.problem(409, "lock_held");
    for sentence in [&held["detail"], &refused["error"]] {
        assert!(sentence.as_str().unwrap().starts_with("doc/1 is held by ann for "), "{sentence}");
    }
}

#[tokio::test]
async fn a_run_that_somebody_holds_tells_who_and_until_when() {
    let server = Server::without_stages().await;
    server.save(&json!({"id": "wf", "name": "wf", "steps": {"ask": {"type": "approval"}}})).await;
    let run = server.run("wf", &json!({})).await;
    cause(&server, &format!("run_id={run}"), "approval_open").await;
    let tenant: TenantId = "default".parse().unwrap();
    let id = run.parse().unwrap();
    // Somebody dies right after it has taken the run, in which something waits.
    let _ = server.store.request_cancel(&tenant, id, "ann").await.unwrap();
    let taken = server.store.take(&tenant, id, &"i-dead".parse().unwrap(), PATIENCE * 9).await.unwrap();
    assert!(taken.is_some());
    let held = cause(&server, &format!("run_id={run}"), "lock_held").await;
    assert_eq!(held["holders"][0]["name"], "i-dead");
    assert!(held["until"].is_string());
    let key = format!("resource=cordum:wf:run:lock:{run}");
    assert_eq!(cause(&server, &key, "lock_held").await["holders"], held["holders"]);
}

#[tokio::test]
async fn the_question_must_name_one_thing_that_is_there() {
    let server = Server::start().await;
    let run = "0192f0c1-0000-7000-8000-000000000001";
    for query in ["", "run_id=", &format!("run_id={run}&workflow_id=wf")] {
        server.get(&format!("/api/v1/why?{query}")).send().await.problem(400, "invalid_request");
    }
    for query in [
        format!("run_id={run}"),
        format!("job_id={run}:a@1"),
        "workflow_id=wf".to_owned(),
        "run_id=x".to_owned(),
    ] {
        server.get(&format!("/api/v1/why?{query}")).send().await.problem(404, "not_found");
    }
}
