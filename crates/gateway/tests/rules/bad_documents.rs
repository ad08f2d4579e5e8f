//! Documents of limits and budgets that are not valid: 400 with the field's name, and nothing is changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::server::Server;

/// A valid document with these members changed.
fn with(document: &Value, members: Value) -> Value {
    let mut changed = document.clone();
    if let (Some(all), Value::Object(members)) = (changed.as_object_mut(), members) {
        all.extend(members);
    }
    changed
}

fn many(count: usize) -> BTreeMap<String, u32> {
    (0..count).map(|number| (format!("g{number}"), 1)).collect()
}

/// The field that the error names, and the document.
fn bad_limits() -> Vec<(&'static str, Value)> {
    let good = json!({"max_runs": 1, "on_full": "queue"});
    let rate = |rate: Value| json!({"rate": rate});
    let debounce = json!({"on_full": "debounce", "quiet_sec": 5});
    let fair = |more: Value| {
        let queue = json!({"order": "fair", "fair_by": "input.user"});
        json!({"max_runs": 1, "on_full": "queue", "queue": with(&queue, more)})
    };
    let queue = |queue: Value| with(&good, json!({ "queue": queue }));
    vec![
        ("surprise", with(&good, json!({"surprise": 1}))),
        ("surprise", with(&good, json!({"applies_to": {"workflows": ["wf"], "surprise": 1}}))),
        ("surprise", rate(json!({"starts": 1, "period_sec": 1, "surprise": 1}))),
        ("surprise", queue(json!({"surprise": 1}))),
        // Neither of the two that make a limit.
        ("max_runs", json!({})),
        ("rate", json!({"on_full": "queue"})),
        ("max_runs", with(&good, json!({"max_runs": -1}))),
        ("max_runs", with(&good, json!({"max_runs": 1_000_000_001}))),
        ("max_runs", with(&good, json!({"max_runs": "1"}))),
        ("max_runs", with(&good, json!({"max_runs": 1.5}))),
        ("rate.starts", rate(json!({"starts": -1, "period_sec": 1}))),
        ("rate.starts", rate(json!({"starts": 0, "period_sec": 1}))),
        ("rate.starts", rate(json!({"starts": 1_000_001, "period_sec": 1}))),
        ("starts", rate(json!({"period_sec": 1}))),
        ("rate.period_sec", rate(json!({"starts": 1, "period_sec": -1}))),
        ("rate.period_sec", rate(json!({"starts": 1, "period_sec": 31_536_001}))),
        ("rate.burst", rate(json!({"starts": 1, "period_sec": 1, "burst": -1}))),
        ("rate.burst", rate(json!({"starts": 1, "period_sec": 1, "burst": 0}))),
        ("key", with(&good, json!({"key": 5}))),
        ("key", with(&good, json!({"key": "input."}))),
        ("key", with(&good, json!({"key": "steps.a"}))),
        ("key", with(&good, json!({"key": ""}))),
        ("applies_to.workflows", with(&good, json!({"applies_to": {"workflows": []}}))),
        ("applies_to.workflows", with(&good, json!({"applies_to": {"workflows": vec!["wf"; 65]}}))),
        ("applies_to.workflows", with(&good, json!({"applies_to": {"workflows": ["no spaces"]}}))),
        ("on_full", with(&good, json!({"on_full": "explode"}))),
        ("on_full", json!({"rate": {"starts": 1, "period_sec": 1}, "on_full": "join"})),
        ("quiet_sec", json!({"on_full": "debounce"})),
        ("quiet_sec", with(&debounce, json!({"quiet_sec": -1}))),
        ("quiet_sec", with(&debounce, json!({"quiet_sec": 604_801}))),
        ("quiet_sec", with(&good, json!({"quiet_sec": 5}))),
        ("max_delay_sec", with(&debounce, json!({"max_delay_sec": -1}))),
        ("max_delay_sec", with(&debounce, json!({"max_delay_sec": 4}))),
        ("count", with(&good, json!({"count": "some"}))),
        ("queue.max_wait_sec", with(&good, json!({"count": "all"}))),
        ("queue", json!({"max_runs": 1, "queue": {"max": 1}})),
        ("queue.max", queue(json!({"max": -1}))),
        ("queue.max", queue(json!({"max": 1_000_001}))),
        ("queue.max_wait_sec", queue(json!({"max_wait_sec": -1}))),
        ("queue.max_wait_sec", queue(json!({"max_wait_sec": 31_536_001}))),
        ("queue.order", queue(json!({"order": "random"}))),
        ("queue.fair_by", queue(json!({"order": "fair"}))),
        ("queue.fair_by", queue(json!({"fair_by": "input.user"}))),
        ("queue.fair_by", fair(json!({"fair_by": "input."}))),
        ("queue.weights", queue(json!({"weights": {"vip": 2}}))),
        ("queue.weights.vip", fair(json!({"weights": {"vip": -1}}))),
        ("\"vip\"", fair(json!({"weights": {"std": 1, "vip": 1_001}}))),
        ("\"vip\"", fair(json!({"weights": {"std": 1, "vip": 0}}))),
        ("queue.weights", fair(json!({"weights": many(101)}))),
    ]
}

fn bad_budgets() -> Vec<(&'static str, Value)> {
    let good = json!({"unit": "usd", "amount": "20", "per": "day"});
    vec![
        ("surprise", with(&good, json!({"surprise": 1}))),
        ("unit", json!({"amount": "20", "per": "day"})),
        ("unit", with(&good, json!({"unit": ""}))),
        ("unit", with(&good, json!({"unit": "x".repeat(33)}))),
        ("amount", json!({"unit": "usd", "per": "day"})),
        ("amount", with(&good, json!({"amount": "-1"}))),
        ("amount", with(&good, json!({"amount": -1}))),
        ("amount", with(&good, json!({"amount": 20}))),
        ("amount", with(&good, json!({"amount": "0.0000001"}))),
        ("amount", with(&good, json!({"amount": "9000000000"}))),
        ("per", json!({"unit": "usd", "amount": "20"})),
        ("per", with(&good, json!({"per": "week"}))),
        ("timezone", with(&good, json!({"timezone": "Mars/Phobos"}))),
        ("timezone", with(&good, json!({"per": "total", "timezone": "UTC"}))),
        ("key", with(&good, json!({"key": 5}))),
        ("key", with(&good, json!({"key": "input."}))),
        ("key", with(&good, json!({"key": "steps.a"}))),
        ("warn_at", with(&good, json!({"warn_at": [-1]}))),
        ("warn_at", with(&good, json!({"warn_at": [101]}))),
        ("warn_at", with(&good, json!({"warn_at": [80, 50]}))),
        ("warn_at", with(&good, json!({"warn_at": (1..=11).collect::<Vec<_>>()}))),
        ("on_exhausted", with(&good, json!({"on_exhausted": "explode"}))),
    ]
}

async fn refused(server: &Server, path: &str, (field, body): (&str, &Value)) {
    let problem = server.put(path).json(body).send().await.problem(400, "invalid_request");
    let said = problem["error"].as_str().unwrap();
    assert!(said.contains(field), "{path}: {field} is not in {said:?}, of {body}");
    let last = field.rsplit('.').next().unwrap();
    assert!(!said.contains(&format!("{last}: {last}:")), "{path}: {field} is named twice in {said:?}");
}

#[tokio::test]
async fn a_document_that_is_not_valid_is_refused_by_its_field_and_changes_nothing() {
    let server = Server::start().await;
    server.put("/api/v1/limits/kept").json(&json!({"max_runs": 7})).send().await.ok(200);
    let budget = json!({"unit": "usd", "amount": "20", "per": "day"});
    server.put("/api/v1/budgets/kept").json(&budget).send().await.ok(200);
    let kept = async || {
        let mut shown = Vec::new();
        for path in ["/api/v1/limits", "/api/v1/limits/kept", "/api/v1/budgets", "/api/v1/budgets/kept"] {
            shown.push(server.get(path).send().await.ok(200));
        }
        shown
    };
    let before = kept().await;
    for (noun, documents) in [("limits", bad_limits()), ("budgets", bad_budgets())] {
        for (field, body) in &documents {
            for name in ["kept", "new"] {
                refused(&server, &format!("/api/v1/{noun}/{name}"), (field, body)).await;
            }
        }
    }
    assert_eq!(kept().await, before);
}

#[tokio::test]
async fn more_limits_for_one_workflow_than_may_be_are_refused_by_the_field() {
    let server = Server::start().await;
    let document = json!({"max_runs": 1, "applies_to": {"workflows": ["wf"]}});
    for number in 0..8 {
        server.put(&format!("/api/v1/limits/l{number}")).json(&document).send().await.ok(200);
    }
    refused(&server, "/api/v1/limits/l8", ("applies_to", &document)).await;
    server.get("/api/v1/limits/l8").send().await.problem(404, "not_found");
}
