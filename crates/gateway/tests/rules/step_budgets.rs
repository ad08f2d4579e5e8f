//! Budgets of steps over HTTP: what a job reserves, what its worker says that it has spent, and what a run waits for.

use interlock_poll::until_matches;
use serde_json::{Value, json};

use crate::server::Server;

fn document(amount: &str, on_exhausted: &str) -> Value {
    json!({"unit": "usd", "amount": amount, "per": "total", "on_exhausted": on_exhausted})
}

/// A workflow whose one step reserves 0.05 of `llm`.
fn workflow() -> Value {
    let budget = json!({"name": "llm", "reserve": "0.05"});
    json!({"id": "wf", "name": "wf", "steps": {"build": {"type": "llm", "topic": "build", "budget": budget}}})
}

async fn prepared(document: &Value) -> Server {
    let server = Server::start().await;
    server.put("/api/v1/budgets/llm").json(document).send().await.ok(200);
    server.save(&workflow()).await;
    server
}

/// Spent, reserved and unsettled.
async fn usage(server: &Server) -> [String; 3] {
    let shown = server.get("/api/v1/budgets/llm").send().await.ok(200);
    ["spent", "reserved", "unsettled"].map(|field| shown["usage"][field].as_str().unwrap().to_owned())
}

async fn job(server: &Server, run: &str) -> Value {
    server.get(&format!("/api/v1/jobs/{run}:build@1")).send().await.ok(200)
}

async fn waiting(server: &Server, run: &str, reason: &str) -> Value {
    let found = until_matches(
        "the job waits so",
        async || job(server, run).await,
        |job| job["waiting_for"]["reason"] == reason,
    );
    found.await["waiting_for"].clone()
}

#[tokio::test]
async fn a_step_reserves_before_a_worker_gets_its_job_and_settles_with_the_result() {
    let server = prepared(&document("1", "deny")).await;
    let run = server.run("wf", &json!({})).await;
    let claimed = server.claim_one("w1").await;
    assert_eq!(usage(&server).await, ["0", "0.05", "0"]);
    let shown = job(&server, &run).await;
    assert_eq!((&shown["budget"]["name"], &shown["budget"]["reserve"]), (&json!("llm"), &json!("0.05")));
    let permit = shown["budget"]["permit"].as_str().unwrap();
    let early = server.post("/api/v1/budgets/llm/settle").json(&json!({"permit": permit, "amount": "0"}));
    early.send().await.problem(409, "conflict");

    let result = json!({"output": {}, "usage": {"llm": "0.031", "other": "7"}});
    for _ in 0..2 {
        server.report(&claimed, "complete", result.clone()).await.ok(200);
    }
    assert_eq!(server.ended(&run).await["status"], "succeeded");
    assert_eq!(usage(&server).await, ["0.031", "0", "0"]);
}

#[tokio::test]
async fn usage_that_is_no_amount_is_refused_and_changes_nothing() {
    let server = prepared(&document("1", "deny")).await;
    server.run("wf", &json!({})).await;
    let claimed = server.claim_one("w1").await;
    let many: serde_json::Map<String, Value> =
        (0..17).map(|number| (format!("b{number}"), json!("1"))).collect();
    for (usage, field) in [
        (json!({"llm": "-1"}), "usage.llm"),
        (json!({"llm": "0.0000001"}), "usage.llm"),
        (json!({"a b": "1"}), "usage.a b"),
        (Value::Object(many), "usage"),
    ] {
        for (verb, body) in
            [("complete", json!({"usage": usage})), ("fail", json!({"error": "x", "usage": usage}))]
        {
            let problem = server.report(&claimed, verb, body).await.problem(400, "invalid_request");
            assert!(problem["error"].as_str().unwrap().starts_with(field), "{problem}");
        }
    }
    assert_eq!(usage(&server).await, ["0", "0.05", "0"]);
    server
        .report(&claimed, "fail", json!({"error": "no", "retryable": false, "usage": {"llm": "0.07"}}))
        .await
        .ok(200);
    assert_eq!(usage(&server).await, ["0.07", "0", "0"]);
}

#[tokio::test]
async fn a_step_with_an_invalid_budget_is_refused_with_the_field() {
    let server = Server::start().await;
    let step = |kind: &str, budget: Value| {
        let step = json!({"type": kind, "topic": "build", "budget": budget});
        json!({"id": "wf", "name": "wf", "steps": {"build": step}})
    };
    let approval = json!({"id": "wf", "name": "wf", "steps": {"build": {"type": "approval",
        "budget": {"name": "llm", "reserve": "1"}}}});
    for (document, field) in [
        (step("worker", json!({"name": "a b", "reserve": "1"})), "steps.build.budget.name"),
        (step("worker", json!({"name": "llm", "reserve": "1e3"})), "steps.build.budget.reserve"),
        (step("llm", json!({"name": "llm", "reserve": "0"})), "steps.build.budget.reserve"),
        (approval, "steps.build.budget"),
    ] {
        let problem =
            server.post("/api/v1/workflows").json(&document).send().await.problem(400, "invalid_request");
        assert!(problem["error"].as_str().unwrap().contains(field), "{problem}");
    }
}

#[tokio::test]
async fn an_exhausted_budget_ends_the_step_if_it_denies() {
    let server = prepared(&document("0.01", "deny")).await;
    let run = server.run("wf", &json!({})).await;
    let view = server.ended(&run).await;
    assert_eq!((&view["status"], &view["error"]["code"]), (&json!("failed"), &json!("budget_exhausted")));
    let message = view["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("budget llm has 0.01 usd left of 0.01, and the reservation needs 0.05."),
        "{message}"
    );
}

#[tokio::test]
async fn a_step_of_a_budget_that_does_not_exist_ends() {
    let server = Server::start().await;
    server.save(&workflow()).await;
    let run = server.run("wf", &json!({})).await;
    let view = server.ended(&run).await;
    assert_eq!(view["error"]["code"], "budget_exhausted");
    assert_eq!(view["error"]["message"], "there is no budget llm");
}

#[tokio::test]
async fn an_exhausted_budget_lets_the_step_wait_and_says_why() {
    let server = prepared(&document("0.06", "queue")).await;
    let first = server.run("wf", &json!({})).await;
    let claimed = server.claim_one("w1").await;
    let second = server.run("wf", &json!({})).await;
    let held = waiting(&server, &second, "budget_exhausted").await;
    let detail = held["detail"].as_str().unwrap();
    assert!(detail.contains("0.05 is reserved by 1 open permit."), "{detail}");
    let why = server.get(&format!("/api/v1/why?job_id={second}:build@1")).send().await.ok(200);
    assert_eq!(why["causes"][0]["code"], "budget_exhausted", "{why}");
    assert!(why["causes"][0]["what_to_do"].as_str().unwrap().contains("interlock budgets adjust"), "{why}");

    server.report(&claimed, "complete", json!({"usage": {"llm": "0.01"}})).await.ok(200);
    assert_eq!(server.ended(&first).await["status"], "succeeded");
    let next = server.claim_one("w1").await;
    assert_eq!(next["run_id"], json!(second), "it goes once there is enough");
    assert_eq!(usage(&server).await, ["0.01", "0.05", "0"]);
}

#[tokio::test]
async fn an_exhausted_budget_asks_a_person_who_lets_one_job_pass() {
    let server = prepared(&document("0.02", "ask")).await;
    let run = server.run("wf", &json!({})).await;
    let held = waiting(&server, &run, "budget_approval").await;
    assert!(held["detail"].as_str().unwrap().starts_with("budget llm has 0.02 usd left"), "{held}");
    let approval = server.get("/api/v1/approvals").send().await.ok(200)["items"][0].clone();
    let asked =
        json!({"name": "llm", "unit": "usd", "reserve": "0.05", "remaining": "0.02", "limit": "0.02"});
    assert_eq!(approval["budget"], asked, "a budget without a window never resets");
    for query in [format!("run_id={run}"), format!("job_id={run}:build@1")] {
        let why = server.get(&format!("/api/v1/why?{query}")).send().await.ok(200);
        assert_eq!(why["causes"][0]["code"], "approval_open", "{why}");
        let said = why["causes"][0]["detail"].as_str().unwrap();
        assert!(said.ends_with(approval["detail"].as_str().unwrap()), "{said} {approval}");
    }
    let approve = format!("/api/v1/approvals/{run}:build@1/approve");
    server.post(&approve).json(&json!({})).send().await.ok(200);
    let claimed = server.claim_one("w1").await;
    assert_eq!(usage(&server).await, ["0", "0.02", "0"], "it reserves what is left");
    server.report(&claimed, "complete", json!({"usage": {"llm": "0.05"}})).await.ok(200);
    assert_eq!(server.ended(&run).await["status"], "succeeded");
    let shown = server.get("/api/v1/budgets/llm").send().await.ok(200);
    assert_eq!((&shown["usage"]["spent"], &shown["usage"]["overdraft"]), (&json!("0.05"), &json!("0.03")));
}

/// Also of a result, not only of a settlement over HTTP.
#[tokio::test]
async fn a_result_that_reaches_a_threshold_is_an_event_and_a_metric() {
    let warned = json!({"unit": "usd", "amount": "0.1", "per": "total", "warn_at": [50, 90]});
    let server = prepared(&warned).await;
    let run = server.run("wf", &json!({})).await;
    let claimed = server.claim_one("w1").await;
    server.report(&claimed, "complete", json!({"usage": {"llm": "0.06"}})).await.ok(200);
    server.ended(&run).await;
    let shown = server.get("/api/v1/budgets/llm").send().await.ok(200);
    let event = &shown["events"][0];
    assert_eq!(
        (&event["event"], &event["percent"], &event["used"]),
        (&json!("warned"), &json!(50), &json!("0.06"))
    );
    let metrics = async || String::from_utf8(server.get("/metrics").send().await.body).unwrap();
    let wanted = [
        "interlock_budget_warnings_total 1",
        "interlock_budget_overdraft_total 1",
        "interlock_budget_spent{tenant=\"default\",budget=\"llm\"} 0.06",
        "interlock_budget_reserved{tenant=\"default\",budget=\"llm\"} 0.0",
        "interlock_budget_unsettled{tenant=\"default\",budget=\"llm\"} 0.0",
    ];
    until_matches("the metrics have it", metrics, |text| wanted.iter().all(|line| text.contains(line))).await;
}

#[tokio::test]
async fn each_user_has_an_amount_and_each_run_where_the_budget_says_so() {
    let keyed =
        json!({"unit": "usd", "amount": "0.05", "per": "run", "key": "input.user", "on_exhausted": "deny"});
    let server = prepared(&keyed).await;
    for user in ["ann", "bob", "ann"] {
        let run = server.run("wf", &json!({"user": user})).await;
        let claimed = server.claim_one("w1").await;
        assert_eq!(claimed["run_id"], json!(run));
        server.report(&claimed, "complete", json!({"usage": {"llm": "0.05"}})).await.ok(200);
        assert_eq!(server.ended(&run).await["status"], "succeeded");
        let group = server.get(&format!("/api/v1/budgets/llm?run_id={run}&key={user}")).send().await.ok(200);
        assert_eq!(group["groups"][0]["usage"]["spent"], "0.05", "{group}");
    }
    let run = server.run("wf", &json!({"user": null})).await;
    let view = server.ended(&run).await;
    assert_eq!(view["error"]["message"], "the key of budget llm has no value: it is null for this run");
}

#[tokio::test]
async fn a_run_that_is_cancelled_before_a_worker_has_its_job_releases_what_it_reserved() {
    let server = prepared(&document("1", "deny")).await;
    let run = server.run("wf", &json!({})).await;
    until_matches("it has reserved", async || usage(&server).await, |usage| usage[1] == "0.05").await;
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).json(&json!({})).send().await;
    server.ended(&run).await;
    assert_eq!(usage(&server).await, ["0", "0", "0"]);
}

/// What is left changes while a person is asked.
#[tokio::test]
async fn an_approval_shows_what_is_left_of_its_budget_now_and_when_it_resets() {
    let daily =
        json!({"unit": "usd", "amount": "0.02", "per": "day", "key": "input.user", "on_exhausted": "ask"});
    let server = prepared(&daily).await;
    let run = server.run("wf", &json!({"user": "ann"})).await;
    waiting(&server, &run, "budget_approval").await;
    let spend = json!({"amount": "0.01", "ttl_ms": 60_000, "request_id": "r1", "key": "ann"});
    server.post("/api/v1/budgets/llm/reserve").json(&spend).send().await.ok(200);
    let approval = server.get("/api/v1/approvals").send().await.ok(200)["items"][0].clone();
    let budget = &approval["budget"];
    assert_eq!((&budget["key"], &budget["remaining"]), (&json!("ann"), &json!("0.01")), "{approval}");
    assert!(budget["resets_at"].as_str().unwrap().ends_with("T00:00:00.000Z"), "{budget}");
    let detail = approval["detail"].as_str().unwrap();
    assert!(detail.starts_with("budget llm of \"ann\" has 0.01 usd left of 0.02 today"), "{detail}");
    assert!(detail.contains("It resets at "), "{detail}");
    let why = server.get(&format!("/api/v1/why?run_id={run}")).send().await.ok(200);
    assert!(why["causes"][0]["detail"].as_str().unwrap().ends_with(detail), "{why}");
}
