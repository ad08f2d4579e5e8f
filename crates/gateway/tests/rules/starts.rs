//! Admission: caps, keys, headers.

use serde_json::json;

use interlock_gateway::Settings;

use crate::server::{Server, local, one_step};

const START: &str = "/api/v1/workflows/wf/runs";

#[tokio::test]
async fn a_start_answers_with_the_run_and_the_remaining_slots() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 3).await;
    let answer = server.post(START).json(&json!({"n": 1})).send().await;
    let body = answer.ok(200);
    assert_eq!((&body["status"], &body["replayed"]), (&json!("running"), &json!(false)));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let policy = "\"tenant-runs\";q=3;qu=\"concurrent-requests\"";
    assert_eq!(answer.header("ratelimit-policy"), Some(policy));
    assert_eq!(answer.header("ratelimit"), Some("\"tenant-runs\";r=2"));
    assert_eq!(answer.header("idempotent-replayed"), None);
}

#[tokio::test]
async fn a_reached_cap_is_refused_with_when_to_retry() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 2).await;
    let starts = (0..10).map(|_| server.post(START).json(&json!({"n": 1})).send());
    let answers = futures_util::future::join_all(starts).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 2);
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        let problem = refused.problem(429, "max_concurrent_runs");
        assert_eq!((&problem["limit"], &problem["current"]), (&json!(2), &json!(2)));
        assert!(problem["error"].as_str().unwrap().starts_with("max concurrent runs reached"));
        assert_eq!(refused.header("ratelimit"), Some("\"tenant-runs\";r=0"));
    }
}

#[tokio::test]
async fn the_same_key_and_payload_return_the_same_run_even_at_the_cap() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 1).await;
    let start =
        |header: &str, key: &str, body: &str| server.post(START).header(header, key).text(body).send();
    let first = start("Idempotency-Key", "k1", "{\"a\":1,\"b\":2}").await.ok(200);
    let again = start("x-idempotency-key", "\"k1\"", " {\"b\":2, \"a\":1} ").await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("ratelimit"), Some("\"tenant-runs\";r=0"));
    let again = again.ok(200);
    assert_eq!((&again["run_id"], &again["replayed"]), (&first["run_id"], &json!(true)));
    let other = start("Idempotency-Key", "k1", "{\"a\":1}").await;
    assert_eq!(other.problem(422, "idempotency_key_reused")["run_id"], first["run_id"]);
    assert!(other.header("ratelimit").is_some());
    start("Idempotency-Key", "k2", "{}").await.problem(429, "max_concurrent_runs");
    let run = first["run_id"].as_str().unwrap();
    server.delete(&format!("/api/v1/workflow-runs/{run}")).send().await.ok(204);
    let gone = start("Idempotency-Key", "k1", "{\"a\":1,\"b\":2}").await.ok(200);
    assert_eq!((&gone["run_id"], &gone["status"]), (&first["run_id"], &json!("deleted")));
}

#[tokio::test]
async fn a_key_in_the_url_is_not_an_idempotency_key() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let refused = server.post("/api/v1/workflows/wf/runs?idempotency_key=k").send().await;
    let problem = refused.problem(400, "invalid_request");
    assert!(problem["error"].as_str().unwrap().contains("\"idempotency_key\""), "{problem}");
}

#[tokio::test]
async fn a_bad_key_is_refused() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let too_long = "k".repeat(256);
    for key in ["", "a b", "\"\"", too_long.as_str()] {
        let answer = server.post(START).header("idempotency-key", key).send().await;
        answer.problem(400, "invalid_request");
        assert!(answer.header("ratelimit-policy").is_some());
    }
    let both =
        server.post(START).header("idempotency-key", "a").header("x-idempotency-key", "b").send().await;
    both.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_start_of_an_unknown_workflow_is_not_found_and_shows_the_remaining_slots() {
    let server = Server::start().await;
    let answer = server.post(START).send().await;
    answer.problem(404, "not_found");
    assert_eq!(answer.header("ratelimit"), Some("\"tenant-runs\";r=10"));
}

#[tokio::test]
async fn a_zero_cap_admits_no_run_and_the_system_cap_is_inherited() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 0).await;
    server.post(START).send().await.problem(429, "max_concurrent_runs");
    let written = server.get("/api/v1/config?scope=org&scope_id=default").send().await.ok(200);
    let limits = json!({"limits": {"max_concurrent_runs": 0}});
    let expected = json!({"scope": "org", "scope_id": "default", "data": limits, "revision": 1});
    assert_eq!(written, expected);
    let inherit = json!({"scope": "org", "scope_id": "default", "data": {"limits": {}}});
    server.put("/api/v1/config").json(&inherit).send().await.ok(204);
    let system = json!({"scope": "system", "data": {"limits": {"max_concurrent_runs": 7}}});
    server.put("/api/v1/config").json(&system).send().await.ok(204);
    let effective = server.get("/api/v1/config/effective?org_id=default").send().await.ok(200);
    let limits = json!({
        "max_concurrent_runs": 7, "max_turn_bytes": 16_777_216, "max_run_bytes": 67_108_864,
        "max_workflows": 10_000, "max_workflow_versions": 10_000, "max_workers": 10_000,
    });
    assert_eq!(effective, json!({"data": {"limits": limits}}));
}

#[tokio::test]
async fn an_input_that_violates_the_schema_is_refused() {
    let server = Server::start().await;
    let mut document = one_step("wf");
    document["input_schema"] = json!({"type": "object", "required": ["n"]});
    server.save(&document).await;
    server.post(START).json(&json!({})).send().await.problem(400, "invalid_request");
    server.post(START).json(&json!({"n": 1})).send().await.ok(200);
}

#[tokio::test]
async fn a_rerun_is_a_start() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 1).await;
    let run = server.run("wf", &json!({"n": 5})).await;
    let path = format!("/api/v1/workflow-runs/{run}/rerun");
    let early = server.post(&path).send().await;
    early.problem(409, "conflict");
    assert_eq!(early.header("ratelimit"), Some("\"tenant-runs\";r=0"));
    let job = server.claim_one("w").await;
    server.report(&job, "fail", json!({"error": "broken", "retryable": false})).await.ok(200);
    let ended = server.ended(&run).await;
    assert_eq!((&ended["status"], &ended["error"]["message"]), (&json!("failed"), &json!("broken")));
    let again =
        server.post(&path).header("idempotency-key", "r").json(&json!({"from_step": "build"})).send().await;
    let again = again.ok(200)["run_id"].as_str().unwrap().to_owned();
    let view = server.view(&again).await;
    assert_eq!((&view["rerun_of"], &view["input"]), (&json!(run), &json!({"n": 5})));
    server.post(&path).send().await.problem(429, "max_concurrent_runs");
    server.post(&path).json(&json!({"from": "x"})).send().await.problem(400, "invalid_request");
}

#[tokio::test]
async fn the_outcomes_of_starts_are_counted() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.cap("default", 1).await;
    server.post(START).header("idempotency-key", "k").send().await.ok(200);
    server.post(START).header("idempotency-key", "k").send().await.ok(200);
    server.post(START).send().await.problem(429, "max_concurrent_runs");
    let text = String::from_utf8(server.get("/metrics").send().await.body).unwrap();
    for line in [
        "# TYPE admissions_total counter",
        "admissions_total{tenant=\"default\",outcome=\"admitted\"} 1",
        "admissions_total{tenant=\"default\",outcome=\"replayed\"} 1",
        "admissions_total{tenant=\"default\",outcome=\"at_capacity\"} 1",
        "admission_wait_seconds_count{tenant=\"default\",endpoint=\"start\"} 3",
        "active_runs{tenant=\"default\"} 1",
        "active_runs{tenant=\"other\"} 0",
        "active_runs_max{tenant=\"default\"} 1",
        "http_requests_total{method=\"POST\",route=\"/api/v1/workflows/{id}/runs\",status=\"429\"} 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn large_bodies_of_a_tenant_wait_for_its_rate_and_for_no_other_tenants() {
    let settings = Settings { tenant_bytes_per_sec: 1_000, ..local() };
    let server = Server::with(settings, None).await.unwrap();
    let large = json!({"text": "x".repeat(100_000)});
    let start = |tenant: &'static str, body: &serde_json::Value| {
        server.post(START).header("X-Tenant-ID", tenant).json(body).send()
    };
    for tenant in ["greedy", "other"] {
        server
            .post("/api/v1/workflows")
            .header("X-Tenant-ID", tenant)
            .json(&one_step("wf"))
            .send()
            .await
            .ok(201);
    }
    start("greedy", &large).await.ok(200);
    let late = start("greedy", &large).await;
    let problem = late.problem(503, "gate_unavailable");
    assert!(problem["error"].as_str().unwrap().contains("1000 bytes per second"), "{problem}");
    start("greedy", &json!({})).await.ok(200);
    start("other", &large).await.ok(200);
}
