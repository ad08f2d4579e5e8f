//! Workflows that are paused, each by a limit of its own.

use interlock_backend::limits::LimitChange;
use interlock_backend::verbs::SaveLimit;
use interlock_model::limit::document::LimitDocument;
use serde_json::{Value, json};

use super::{put, server, start, text, until_status};
use crate::server::one_step;

#[tokio::test]
async fn a_limit_by_which_a_workflow_is_paused_applies_to_that_one_alone() {
    let server = server().await;
    server.save(&one_step("other")).await;
    for document in [json!({"max_runs": 5}), json!({"max_runs": 5, "applies_to": {"workflows": ["w*"]}})] {
        let problem = put(&server, "workflow.wf", document).await.problem(400, "invalid_request");
        assert!(text(&problem["error"]).contains("applies_to.workflows"), "{problem}");
    }
    let own = json!({"max_runs": 5, "applies_to": {"workflows": ["wf"]}});
    put(&server, "workflow.wf", own).await.ok(200);
    server.post("/api/v1/workflows/wf/pause").send().await.ok(200);
    start(&server, &json!({"n": 1})).send().await.problem(429, "limit_reached");
    let other = server.post("/api/v1/workflows/other/runs").json(&json!({"n": 1}));
    other.clone().send().await.ok(200);

    // One that an earlier version has let through.
    let document: LimitDocument = serde_json::from_value(json!({"max_runs": 5})).unwrap();
    let (tenant, name) = ("default".parse().unwrap(), "workflow.other".parse().unwrap());
    let save = SaveLimit { tenant, name, document, book: 2, replaces: None };
    let saved = server.store.call(save).await.unwrap();
    assert!(matches!(saved, LimitChange::Done { .. }), "{saved:?}");
    let refused = server.post("/api/v1/workflows/other/pause").send().await.problem(409, "conflict");
    assert!(text(&refused["error"]).contains("workflow.other"), "{refused}");
    other.send().await.ok(200);
}

#[tokio::test]
async fn a_deleted_workflow_leaves_no_pause_behind() {
    let server = server().await;
    server.post("/api/v1/workflows/wf/pause").json(&json!({"on_full": "queue"})).send().await.ok(200);
    let queued = text(&start(&server, &json!({"n": 1})).send().await.ok(202)["run_id"]);
    server.delete("/api/v1/workflows/wf").send().await.ok(204);
    // What was accepted runs by the version that it was accepted with.
    until_status(&server, &queued, "running").await;
    let limits = server.get("/api/v1/limits").send().await.ok(200);
    let names: Vec<&Value> = limits["items"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("tenant-runs")]);
    server.save(&one_step("wf")).await;
    start(&server, &json!({"n": 2})).send().await.ok(200);
}
