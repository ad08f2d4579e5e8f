//! `why` answers with the cause of a wait, its holder and its expected duration.

use interlock_backend::verbs::{AcquireRun, RequestCancel};
use interlock_model::TenantId;
use interlock_poll::{LIMIT, until, until_matches};
use serde_json::{Value, json};

use crate::server::{Server, one_step};

async fn why(server: &Server, query: &str) -> Value {
    server.get(&format!("/api/v1/why?{query}")).send().await.ok(200)
}

/// The first cause. Asserts its code.
async fn cause(server: &Server, query: &str, code: &str) -> Value {
    let answer = why(server, query).await;
    assert_eq!(answer["causes"][0]["code"], code, "{answer:#}");
    assert!(!answer["causes"][0]["what_to_do"].as_str().unwrap().is_empty());
    answer["causes"][0].clone()
}

/// The run's first cause, once it has this code.
async fn becomes(server: &Server, run: &str, code: &str) -> Value {
    let query = format!("run_id={run}");
    let first = async || why(server, &query).await["causes"][0].clone();
    until_matches(&format!("{run} waits because of {code}"), first, |cause| cause["code"] == code).await
}

/// The sentence with who holds the slot, behind what is full.
fn held_in(sentence: &str, held: &str) -> String {
    sentence.replacen('.', &format!(".{held}"), 1)
}

/// Ages grow between two answers.
fn without_ages(sentence: &str) -> String {
    let words =
        sentence.split(' ').filter(|word| word.parse::<u64>().is_err() && *word != "ms" && *word != "s");
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_refused_start_is_explained_by_the_holders_of_the_slots() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 1).await;
    let answer = why(&server, "workflow_id=wf").await;
    assert_eq!((&answer["state"], &answer["causes"][0]["code"]), (&json!("free"), &json!("free")));
    let ended = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    server.ended(&ended).await;
    let run = server.run("wf", &json!({"n": 2})).await;
    let refused = server.post("/api/v1/workflows/wf/runs").json(&json!({"n": 3})).send().await;
    let refused = refused.problem(429, "max_concurrent_runs");
    let cause = cause(&server, "workflow_id=wf", "cap_full").await;
    assert_eq!(cause["holders"][0]["name"], json!(run));
    let (detail, refusal) = (cause["detail"].as_str().unwrap(), refused["detail"].as_str().unwrap());
    let held = format!(" Held by run `{run}` for 0 ms (step `build`).");
    assert_eq!(without_ages(detail), without_ages(&held_in(refusal, &held)), "they share a sentence");
    assert!(cause["expected_wait_ms"].is_u64(), "a run has ended, so the wait can be estimated: {cause}");
}

#[tokio::test]
async fn a_run_lists_what_each_of_its_steps_waits_for() {
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
        let answer = why(&server, &query).await;
        let causes = answer["causes"].as_array().unwrap().clone();
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
    until("the step waits for its retry", async || codes().await[1].1 == "retry_backoff").await;
    let answer = why(&server, &query).await;
    let (retry, pause) = (&answer["causes"][1], &answer["causes"][2]);
    assert!(retry["detail"].as_str().unwrap().contains("out of luck"), "{retry}");
    // A retry has a random delay within its backoff.
    for (cause, shortest) in [(retry, 0), (pause, 500_000)] {
        let wait = cause["expected_wait_ms"].as_u64().unwrap();
        assert!((shortest..=600_000).contains(&wait), "{cause}");
    }
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
    assert_eq!(becomes(&server, &run, "ended").await["detail"], "the run is cancelled");
    cause(&server, &format!("job_id={run}:build@1"), "ended").await;
}

#[tokio::test]
async fn a_lock_is_explained_by_its_holder_as_in_its_refusal() {
    let server = Server::start().await;
    cause(&server, "resource=doc%2F1", "free").await;
    let request = json!({"resource": "doc/1", "owner": "ann", "mode": "exclusive", "ttl_ms": 60_000});
    server.post("/api/v1/locks/acquire").json(&request).send().await.ok(200);
    let held = cause(&server, "resource=doc%2F1", "lock_held").await;
    assert_eq!(held["holders"][0]["name"], "ann");
    assert_eq!(held["position"], 1);
    assert!(held["expected_wait_ms"].as_u64().unwrap() <= 60_000);
    let request = json!({"resource": "doc/1", "owner": "bob", "mode": "exclusive", "ttl_ms": 60_000});
    let refused = server.post("/api/v1/locks/acquire").json(&request).send().await.problem(409, "lock_held");
    for sentence in [&held["detail"], &refused["error"]] {
        assert!(sentence.as_str().unwrap().starts_with("doc/1 has been held by ann for "), "{sentence}");
    }
}

#[tokio::test]
async fn a_leased_run_is_explained_by_its_holder_and_its_expiry() {
    let server = Server::without_stages().await;
    server.save(&json!({"id": "wf", "name": "wf", "steps": {"ask": {"type": "approval"}}})).await;
    let run = server.run("wf", &json!({})).await;
    cause(&server, &format!("run_id={run}"), "approval_open").await;
    let tenant: TenantId = "default".parse().unwrap();
    let id = run.parse().unwrap();
    // A process dies right after it has acquired the run, whose inbox is not empty.
    let _ = server
        .store
        .call(RequestCancel { tenant: tenant.clone(), run: id, by: "ann".to_owned() })
        .await
        .unwrap();
    let taken = server
        .store
        .call(AcquireRun {
            tenant: tenant.clone(),
            run: id,
            holder: "i-dead".parse().unwrap(),
            lease: LIMIT * 9,
        })
        .await
        .unwrap();
    assert!(taken.is_some());
    let held = cause(&server, &format!("run_id={run}"), "lock_held").await;
    assert_eq!(held["holders"][0]["name"], "i-dead");
    assert!(held["until"].is_string());
    let key = format!("resource=cordum:wf:run:lock:{run}");
    assert_eq!(cause(&server, &key, "lock_held").await["holders"], held["holders"]);
}

#[tokio::test]
async fn the_query_must_name_one_thing_that_exists() {
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
