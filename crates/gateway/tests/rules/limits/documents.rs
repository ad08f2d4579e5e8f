//! Limits saved, read, paused, explained and deleted.

use serde_json::{Value, json};

use super::{get, put, server, start, text, until_status};
use crate::client::Request;

#[tokio::test]
async fn a_limit_is_saved_read_and_deleted_under_its_revision() {
    let server = server().await;
    let document = json!({"applies_to": {"workflows": ["w*"]}, "key": "input.repo", "max_runs": 2,
        "rate": {"starts": 100, "period_sec": 60, "burst": 20}, "on_full": "queue",
        "queue": {"max": 5, "max_wait_sec": 60, "order": "priority"}});
    let saved = put(&server, "per-repo", document.clone()).await;
    let revision = saved.ok(200)["revision"].as_u64().unwrap();
    assert_eq!(saved.header("etag"), Some(format!("\"{revision}\"").as_str()));
    let read = get(&server, "per-repo").await;
    assert_eq!((&read["document"], &read["revision"]), (&document, &json!(revision)));
    assert_eq!(
        read["usage"],
        json!({"live": 0, "queued": 0, "debounced": 0, "max_runs": 2, "has_more": false})
    );

    let path = "/api/v1/limits/per-repo";
    let with = |request: Request, name: &str, value: &str| request.header(name, value);
    let stale = with(server.put(path), "if-match", "\"999\"").json(&json!({"max_runs": 9})).send().await;
    stale.problem(409, "conflict");
    let twice = with(server.put(path), "if-none-match", "*").json(&json!({"max_runs": 9})).send().await;
    twice.problem(409, "conflict");
    with(server.delete(path), "if-match", "\"999\"").send().await.problem(409, "conflict");
    assert_eq!(get(&server, "per-repo").await, read, "nothing was changed");

    let tag = format!("\"{revision}\"");
    let changed = with(server.put(path), "if-match", &tag).json(&json!({"max_runs": 9})).send().await.ok(200);
    assert!(changed["revision"].as_u64() > Some(revision));
    with(server.put(path), "if-match", &tag)
        .json(&json!({"max_runs": 1}))
        .send()
        .await
        .problem(409, "conflict");
    with(server.put(path), "if-match", "*").json(&json!({"max_runs": 8})).send().await.ok(200);
    with(server.put(path), "if-match", "high")
        .json(&json!({"max_runs": 8}))
        .send()
        .await
        .problem(400, "invalid_request");

    let names = |list: &Value| {
        list["items"].as_array().unwrap().iter().map(|it| text(&it["name"])).collect::<Vec<_>>()
    };
    put(&server, "a-first", json!({"max_runs": 1})).await.ok(200);
    let listed = server.get("/api/v1/limits").send().await.ok(200);
    assert_eq!(names(&listed), ["tenant-runs", "a-first", "per-repo"]);
    let mut paged = Vec::new();
    let mut query = "limit=1".to_owned();
    for _ in 0..3 {
        let page = server.get(&format!("/api/v1/limits?{query}")).send().await.ok(200);
        paged.extend(names(&page));
        query = format!("limit=1&cursor={}", page["next_cursor"].as_str().unwrap_or_default());
    }
    assert_eq!(paged, names(&listed));

    server.delete(path).send().await.ok(204);
    server.get(path).send().await.problem(404, "not_found");
    server.delete(path).send().await.problem(404, "not_found");
    with(server.put(path), "if-match", "*")
        .json(&json!({"max_runs": 8}))
        .send()
        .await
        .problem(409, "conflict");
    server.delete("/api/v1/limits/tenant-runs").send().await.problem(409, "conflict");
}

#[tokio::test]
async fn a_bad_document_is_refused_with_the_name_of_its_field() {
    let server = server().await;
    put(&server, "good", json!({"max_runs": 1})).await.ok(200);
    let before = server.get("/api/v1/limits").send().await.ok(200);
    let table = [
        (json!({}), "max_runs"),
        (json!({"max_runs": -1}), "max_runs"),
        (json!({"max_runs": 1_000_000_001}), "max_runs"),
        (json!({"max_runs": 1, "maxruns": 2}), "maxruns"),
        (json!({"max_runs": 1, "count": "all"}), "queue.max_wait_sec"),
        (json!({"max_runs": 1, "count": "some"}), "count"),
        (json!({"max_runs": 1, "key": "input."}), "key"),
        (json!({"max_runs": 1, "key": "secrets.x"}), "key"),
        (json!({"max_runs": 1, "on_full": "explode"}), "on_full"),
        (json!({"rate": {"starts": 0, "period_sec": 1}}), "rate.starts"),
        (json!({"rate": {"starts": 1, "period_sec": 0}}), "rate.period_sec"),
        (json!({"rate": {"starts": 1, "period_sec": 1}, "on_full": "join"}), "on_full"),
        (json!({"max_runs": 1, "queue": {"max": 1}}), "queue"),
        (json!({"max_runs": 1, "on_full": "queue", "queue": {"max": 0}}), "queue.max"),
        (json!({"max_runs": 1, "on_full": "queue", "queue": {"order": "fair"}}), "order"),
        (json!({"max_runs": 1, "applies_to": {"workflows": []}}), "applies_to.workflows"),
        (json!({"max_runs": 1, "applies_to": {"workflows": ["a b"]}}), "applies_to.workflows"),
    ];
    for (document, field) in table {
        for name in ["new", "good"] {
            let refused = put(&server, name, document.clone()).await.problem(400, "invalid_request");
            let detail = text(&refused["detail"]);
            assert!(detail.contains(field), "{document}: {detail} does not name {field}");
        }
    }
    for document in [
        json!({"key": "input.x"}),
        json!({"rate": {"starts": 1, "period_sec": 1}}),
        json!({"on_full": "join"}),
    ] {
        put(&server, "tenant-runs", document).await.problem(400, "invalid_request");
    }
    let after = server.get("/api/v1/limits").send().await.ok(200);
    assert_eq!(after, before, "nothing was changed");
    for number in 0..8 {
        put(&server, &format!("all-{number}"), json!({"max_runs": 1})).await;
    }
    let ninth = put(&server, "ninth", json!({"max_runs": 1})).await.problem(400, "invalid_request");
    assert!(text(&ninth["detail"]).contains("applies_to"), "{ninth}");
}

#[tokio::test]
async fn a_paused_limit_starts_nothing_until_it_is_resumed() {
    let server = server().await;
    put(&server, "deploys", json!({"max_runs": 5, "on_full": "queue"})).await.ok(200);
    let ask = |verb: &str| server.post(&format!("/api/v1/limits/deploys/{verb}"));
    let paused = ask("pause").json(&json!({"reason": "bad release"})).send().await.ok(200);
    assert_eq!(
        (&paused["paused"]["reason"], &paused["paused"]["by"]),
        (&json!("bad release"), &json!("anonymous"))
    );
    let queued = start(&server, &json!({"n": 1})).send().await.ok(202);
    assert_eq!(
        (&queued["blocked_by"]["reason"], &queued["blocked_by"]["full"]),
        (&json!("blocked"), &json!("paused"))
    );
    let run = text(&queued["run_id"]);
    let why = server.get(&format!("/api/v1/why?run_id={run}")).send().await.ok(200);
    assert_eq!(why["causes"][0]["code"], json!("blocked"));
    assert!(text(&why["causes"][0]["detail"]).contains("bad release"), "{why}");
    put(&server, "deploys", json!({"max_runs": 6, "on_full": "queue"})).await.ok(200);
    assert_eq!(
        server.view(&run).await["status"],
        json!("queued"),
        "a change of the document does not resume"
    );
    let resumed = ask("resume").send().await.ok(200);
    assert_eq!(resumed["paused"], Value::Null);
    until_status(&server, &run, "running").await;
    server.post("/api/v1/limits/none/pause").send().await.problem(404, "not_found");
    ask("pause").json(&json!({"reason": "x".repeat(513)})).send().await.problem(400, "invalid_request");
    // The tenant is paused by its own limit.
    server.post("/api/v1/limits/tenant-runs/pause").send().await.ok(200);
    let refused = start(&server, &json!({"n": 2})).send().await.problem(429, "limit_reached");
    assert_eq!(
        (&refused["limit"], &refused["blocked_by"]["reason"]),
        (&json!("tenant-runs"), &json!("blocked"))
    );
    let why = server.get("/api/v1/why?workflow_id=wf").send().await.ok(200);
    assert_eq!((&why["state"], &why["causes"][0]["code"]), (&json!("paused"), &json!("blocked")));
}

#[tokio::test]
async fn an_explanation_says_what_would_happen_and_starts_nothing() {
    let server = server().await;
    put(&server, "per-repo", json!({"key": "input.repo", "max_runs": 1, "on_full": "join"})).await.ok(200);
    put(&server, "all", json!({"max_runs": 1, "on_full": "replace_queued"})).await.ok(200);
    let explain = async |repo: &str| {
        let body = json!({"workflow": "wf", "input": {"repo": repo, "n": 1}});
        server.post("/api/v1/limits/explain").json(&body).send().await.ok(200)
    };
    let free = explain("a").await;
    assert_eq!((&free["outcome"], &free["decided_by"]), (&json!("start"), &Value::Null));
    assert_eq!(
        free["warnings"].as_array().unwrap().len(),
        1,
        "two limits with policies of their own: {free}"
    );
    let names: Vec<_> = free["limits"].as_array().unwrap().iter().map(|it| text(&it["limit"])).collect();
    assert_eq!(names, ["per-repo", "all", "tenant-runs"], "the narrowest first");
    start(&server, &json!({"repo": "a", "n": 1})).send().await.ok(200);
    for (repo, outcome, decides) in [("a", "join", "per-repo"), ("b", "queue", "all")] {
        let explained = explain(repo).await;
        assert_eq!((&explained["outcome"], &explained["decided_by"]), (&json!(outcome), &json!(decides)));
    }
    start(&server, &json!({"repo": "b", "n": 1})).send().await.ok(202);
    assert_eq!(explain("c").await["outcome"], json!("replace_queued"));
    let runs = server.get("/api/v1/workflow-runs").send().await.ok(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
    let ask = async |body: Value| server.post("/api/v1/limits/explain").json(&body).send().await;
    ask(json!({"workflow": "none"})).await.problem(404, "not_found");
    ask(json!({"workflow": "wf"})).await.problem(400, "invalid_request");
    ask(json!({"workflow": "wf", "labels": {"a b": "c"}})).await.problem(400, "invalid_request");
}

#[tokio::test]
async fn the_tenants_own_limit_is_set_by_its_document_and_keeps_the_others() {
    let server = server().await;
    let config = json!({"scope": "org", "data": {"limits": {"max_concurrent_runs": 3, "idempotency_retention_sec": 60}}});
    server.put("/api/v1/config").json(&config).send().await.ok(204);
    let before = get(&server, "tenant-runs").await;
    assert_eq!((&before["document"]["max_runs"], &before["usage"]["max_runs"]), (&json!(3), &json!(3)));
    let queueing = json!({"max_runs": 1, "on_full": "queue", "queue": {"max": 7, "order": "fifo"}});
    let tag = format!("\"{}\"", before["revision"]);
    let path = "/api/v1/limits/tenant-runs";
    server.put(path).header("if-match", &tag).json(&queueing).send().await.ok(200);
    server.put(path).header("if-match", &tag).json(&queueing).send().await.problem(409, "conflict");
    let written = server.get("/api/v1/config?scope=org").send().await.ok(200);
    assert_eq!(written["data"]["limits"], json!({"max_concurrent_runs": 1, "idempotency_retention_sec": 60}));
    start(&server, &json!({"n": 1})).send().await.ok(200);
    assert_eq!(
        start(&server, &json!({"n": 2})).send().await.ok(202)["blocked_by"]["limit"],
        json!("tenant-runs")
    );
    // The older document has no queue, and keeps it.
    let raised = json!({"scope": "org", "data": {"limits": {"max_concurrent_runs": 2}}});
    server.put("/api/v1/config").json(&raised).send().await.ok(204);
    let after = get(&server, "tenant-runs").await;
    assert_eq!(
        after["document"],
        json!({"max_runs": 2, "on_full": "queue", "queue": {"max": 7, "order": "fifo"}})
    );
    assert_eq!(start(&server, &json!({"n": 3})).send().await.ok(202)["status"], json!("queued"));
}

#[tokio::test]
async fn a_start_without_a_key_begins_once_the_limit_asks_for_none() {
    let server = server().await;
    for document in [Some(json!({"max_runs": 5, "key": "input.other"})), Some(json!({"max_runs": 5})), None] {
        put(&server, "keyed", json!({"max_runs": 5, "key": "input.user"})).await.ok(200);
        start(&server, &json!({"user": "ann"})).send().await.ok(200);
        let refused = start(&server, &json!({"other": 1})).send().await;
        assert!(text(&refused.problem(400, "invalid_request")["detail"]).contains("keyed"));
        match document {
            Some(document) => drop(put(&server, "keyed", document).await.ok(200)),
            None => drop(server.delete("/api/v1/limits/keyed").send().await.ok(204)),
        }
        start(&server, &json!({"other": 1})).send().await.ok(200);
    }
}
