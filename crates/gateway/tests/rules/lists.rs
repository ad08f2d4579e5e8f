//! Lists, pages, and what they show.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::server::{Server, one_step};

/// Every item of a list, page by page.
pub(crate) async fn all(server: &Server, path: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let joint = if path.contains('?') { '&' } else { '?' };
        let page = server.get(&format!("{path}{joint}limit={limit}&cursor={cursor}")).send().await.ok(200);
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit);
        items.extend(found.iter().cloned());
        match &page["next_cursor"] {
            Value::String(next) => {
                assert!(next.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{next}");
                cursor.clone_from(next);
            }
            Value::Null => return items,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                panic!("next_cursor is {}", page["next_cursor"])
            }
        }
    }
}

#[tokio::test]
async fn pages_hold_every_item_once_newest_first() {
    let server = Server::start().await;
    server.cap("default", 100).await;
    let mut started = Vec::new();
    for number in 0..7 {
        server.save(&one_step(&format!("wf{number}"))).await;
        started.push(server.run(&format!("wf{number}"), &json!({"n": number})).await);
    }
    started.sort();
    started.reverse();
    let runs = all(&server, "/api/v1/workflow-runs", 2).await;
    assert_eq!(runs.iter().map(|run| run["id"].as_str().unwrap()).collect::<Vec<_>>(), started);
    let workflows: BTreeSet<_> = all(&server, "/api/v1/workflows", 3)
        .await
        .iter()
        .map(|workflow| workflow["id"].to_string())
        .collect();
    assert_eq!(workflows.len(), 7);
    let one = all(&server, "/api/v1/workflow-runs?workflow_id=wf3", 2).await;
    assert_eq!(one.len(), 1);
    for _ in 0..7 {
        server.claim_one("w").await;
    }
    assert_eq!(all(&server, "/api/v1/jobs?state=running", 3).await.len(), 7);
    assert_eq!(all(&server, "/api/v1/jobs?state=queued", 3).await.len(), 0);
    let timeline = all(&server, &format!("/api/v1/workflow-runs/{}/timeline", started[0]), 1).await;
    let numbers: Vec<u64> = timeline.iter().map(|item| item["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(numbers.len() > 1);
}

#[tokio::test]
async fn bad_parameters_are_refused_and_unknown_ones_ignored() {
    let server = Server::start().await;
    for query in [
        "status=nope",
        "workflow_id=a%20b",
        "limit=0",
        "limit=",
        "cursor=!",
        "cursor=zz",
        "limit=1&limit=2",
        "status=%FF",
    ] {
        let answer = server.get(&format!("/api/v1/workflow-runs?{query}")).send().await;
        assert_eq!(answer.status, 400, "{query}");
        answer.problem(400, "invalid_request");
    }
    server.get("/api/v1/jobs?state=nope").send().await.problem(400, "invalid_request");
    server.get("/api/v1/config").send().await.problem(400, "invalid_request");
    server.get("/api/v1/config?scope=team").send().await.problem(400, "invalid_request");
    server.get("/api/v1/workflow-runs?limit=500").send().await.ok(200);
}

#[tokio::test]
async fn a_workflow_is_shown_as_saved_until_it_is_deleted() {
    let server = Server::start().await;
    let created = server.post("/api/v1/workflows").json(&one_step("wf")).send().await.ok(201);
    assert_eq!(created, json!({"id": "wf", "version": 1}));
    let created = server.post("/api/v1/workflows").json(&one_step("wf")).send().await.ok(201);
    assert_eq!(created, json!({"id": "wf", "version": 2}));
    let view = server.get("/api/v1/workflows/wf").send().await.ok(200);
    assert_eq!((&view["version"], &view["steps"]), (&json!(2), &one_step("wf")["steps"]));
    server.delete("/api/v1/workflows/wf").send().await.ok(204);
    server.delete("/api/v1/workflows/wf").send().await.problem(404, "not_found");
    server.get("/api/v1/workflows/wf").send().await.problem(404, "not_found");
    server.post("/api/v1/workflows/wf/runs").send().await.problem(404, "not_found");
    let mut nameless = one_step("wf");
    nameless.as_object_mut().unwrap().remove("id");
    let made_up = server.post("/api/v1/workflows").json(&nameless).send().await.ok(201);
    assert!(made_up["id"].as_str().is_some_and(|id| !id.is_empty()));
}

#[tokio::test]
async fn a_run_shows_every_member_and_every_step() {
    let server = Server::start().await;
    let mut document = one_step("wf");
    document["steps"]["after"] = json!({"type": "worker", "topic": "other", "depends_on": ["build"]});
    server.save(&document).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    let view = server.view(&run).await;
    let members = "id workflow_id workflow_version org_id status input context output error steps created_at \
                   started_at completed_at updated_at idempotency_key rerun_of parent root depth fence";
    for member in members.split_whitespace() {
        assert!(view.get(member).is_some(), "{member} in {view}");
    }
    let step = &view["steps"]["build"];
    for member in
        "status attempts job_id child_run_id started_at completed_at output error children".split_whitespace()
    {
        assert!(step.get(member).is_some(), "{member} in {step}");
    }
    assert_eq!((&step["status"], &step["job_id"]), (&json!("running"), &job["job_id"]));
    assert_eq!(view["steps"]["after"]["status"], "pending");
    assert!(view["created_at"].as_str().unwrap().ends_with('Z'));
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
    let view = server.view(&run).await;
    assert_eq!(view["status"], "cancelled");
    assert_ne!(view["steps"]["after"]["status"], "pending");
    server.delete(&format!("/api/v1/workflow-runs/{run}")).send().await.ok(204);
    server.get(&format!("/api/v1/workflow-runs/{run}")).send().await.problem(404, "not_found");
}

#[tokio::test]
async fn the_first_decision_on_an_approval_counts() {
    let server = Server::start().await;
    let ask = json!({"type": "approval", "input": {"why": "${input.why}"}});
    let document = json!({"id": "wf", "name": "wf", "steps": {"ask": ask}});
    server.save(&document).await;
    for (verdict, other, ending) in [("approve", "reject", "succeeded"), ("reject", "approve", "denied")] {
        let run = server.run("wf", &json!({"why": "because"})).await;
        crate::watching::until(&server, &run, |view| view["status"] == "waiting").await;
        let open = server.get("/api/v1/approvals").send().await.ok(200)["items"][0].clone();
        let job = open["job_id"].as_str().unwrap();
        assert_eq!(
            (&open["run_id"], &open["step_id"], &open["input"]["why"]),
            (&json!(run), &json!("ask"), &json!("because"))
        );
        let resolve = |verb: &str| server.post(&format!("/api/v1/approvals/{job}/{verb}"));
        resolve(verdict).json(&json!({"reason": "fine"})).send().await.ok(200);
        assert_eq!(resolve(verdict).send().await.ok(200), json!({"job_id": job}));
        resolve(other).send().await.problem(409, "approval_already_resolved");
        resolve(verdict).json(&json!({"reazon": 1})).send().await.problem(400, "invalid_request");
        assert_eq!(server.ended(&run).await["status"], ending);
    }
}

#[tokio::test]
async fn a_worker_that_has_claimed_is_listed() {
    let server = Server::start().await;
    let claim = json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 0, "capabilities": ["gpu"]});
    server.post("/api/v1/workers/w1/claim").json(&claim).send().await.ok(200);
    let listed = server.get("/api/v1/workers").send().await.ok(200);
    let worker = &listed["items"][0];
    assert_eq!(
        (&worker["worker_id"], &worker["capabilities"], &worker["online"]),
        (&json!("w1"), &json!(["gpu"]), &json!(true))
    );
    assert_eq!(server.get("/api/v1/workers/w1").send().await.ok(200)["topics"], json!(["t"]));
    server.get("/api/v1/workers/unknown").send().await.problem(404, "not_found");
    let status = server.get("/api/v1/status").send().await.ok(200);
    assert_eq!((&status["backend"]["kind"], &status["roles"]), (&json!("memory"), &json!(["gateway"])));
}
