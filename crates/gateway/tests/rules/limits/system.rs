//! Limits of the system, which every tenant has beside its own.

use interlock_backend::documents::DocumentName;
use interlock_backend::limits::StoredLimit;
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{SaveDocument, SetLimits};
use interlock_model::Timestamp;
use interlock_model::limit::Limits;
use interlock_model::limit::document::{LimitDocument, OnFull};
use interlock_poll::until_matches;
use serde_json::{Value, json};

use super::{end_one, get, put, server, text};
use crate::client::Request;
use crate::server::{Server, one_step};

const PATH: &str = "/api/v1/system/limits/per-repo";

/// A start in another tenant than the usual one.
fn start_of(server: &Server, tenant: &str, repo: &str) -> Request {
    let start = server.post("/api/v1/workflows/wf/runs").header("x-tenant-id", tenant);
    start.json(&json!({"repo": repo, "n": 1}))
}

async fn two_tenants() -> Server {
    let server = server().await;
    server
        .post("/api/v1/workflows")
        .header("x-tenant-id", "other")
        .json(&one_step("wf"))
        .send()
        .await
        .ok(201);
    server
}

fn ids(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| text(&item["run_id"])).collect()
}

#[tokio::test]
async fn a_limit_of_the_system_counts_each_tenant_apart_and_shows_in_it() {
    let server = two_tenants().await;
    let document = json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"});
    let saved = server.put(PATH).json(&document).send().await;
    let view = saved.ok(200);
    assert_eq!(
        (&view["name"], &view["name_in_tenants"], &view["document"]),
        (&json!("per-repo"), &json!("system.per-repo"), &document)
    );
    assert_eq!(saved.header("etag"), Some(format!("\"{}\"", view["revision"]).as_str()));
    // A tenant's own limit may have the same name.
    put(&server, "per-repo", json!({"max_runs": 5})).await.ok(200);
    let listed = server.get("/api/v1/limits").send().await.ok(200);
    let shown: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|it| (&it["name"], &it["scope"])).collect();
    let expected = [("tenant-runs", "org"), ("per-repo", "org"), ("system.per-repo", "system")];
    assert_eq!(
        shown,
        expected.map(|(name, scope)| (json!(name), json!(scope))).each_ref().map(|it| (&it.0, &it.1))
    );

    let mut queued = Vec::new();
    for tenant in ["default", "other"] {
        start_of(&server, tenant, "api").send().await.ok(200);
        let waits = start_of(&server, tenant, "api").send().await.ok(202);
        assert_eq!(waits["blocked_by"]["limit"], json!("system.per-repo"));
        assert_eq!(waits["position"], json!(1));
        queued.push(text(&waits["run_id"]));
        // A tenant that has never started a run has it, too.
        let explain = server.post("/api/v1/limits/explain").header("x-tenant-id", tenant);
        let explained =
            explain.json(&json!({"workflow": "wf", "input": {"repo": "api"}})).send().await.ok(200);
        assert_eq!(explained["decided_by"], json!("system.per-repo"));
    }
    let why = server.get(&format!("/api/v1/why?run_id={}", queued[0])).send().await.ok(200);
    assert!(text(&why["causes"][0]["detail"]).contains("limit `system.per-repo` for `api`"), "{why}");
    let queue = "/api/v1/limits/system.per-repo/queue";
    let without = text(&server.get(queue).send().await.problem(400, "invalid_request")["error"]);
    assert!(without.contains("`api` (1 waiting)"), "{without}");
    assert_eq!(ids(&server.get(&format!("{queue}?group=api")).send().await.ok(200)), queued[..1]);

    // It is raised: the runs that wait have their slots with the answer, in both tenants.
    server
        .put(PATH)
        .json(&json!({"key": "input.repo", "max_runs": 2, "on_full": "queue"}))
        .send()
        .await
        .ok(200);
    for (tenant, run) in ["default", "other"].into_iter().zip(&queued) {
        let usage =
            server.get("/api/v1/limits/system.per-repo").header("x-tenant-id", tenant).send().await.ok(200);
        assert_eq!(
            (&usage["usage"]["live"], &usage["usage"]["queued"]),
            (&json!(2), &json!(0)),
            "{tenant} {run}"
        );
    }
    end_one(&server).await;
    let metrics = server.get("/metrics").send().await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(
        metrics.contains("interlock_limit_max{tenant=\"default\",limit=\"system.per-repo\"} 2"),
        "{metrics}"
    );
}

#[tokio::test]
async fn only_a_key_for_all_tenants_changes_a_limit_of_the_system() {
    let server = two_tenants().await;
    server.put(PATH).json(&json!({"max_runs": 3})).send().await.ok(200);
    let in_tenant = "/api/v1/limits/system.per-repo";
    let named =
        server.put(in_tenant).json(&json!({"max_runs": 9})).send().await.problem(400, "invalid_request");
    assert!(text(&named["error"]).contains("name:"), "{named}");
    server.delete(in_tenant).send().await.problem(409, "conflict");
    for verb in ["pause", "resume"] {
        server.post(&format!("{in_tenant}/{verb}")).send().await.problem(409, "conflict");
    }
    assert_eq!(
        get(&server, "system.per-repo").await["document"]["max_runs"],
        json!(3),
        "nothing was changed"
    );
}

#[tokio::test]
async fn a_limit_of_the_system_changes_under_its_revision_and_is_paused_everywhere() {
    let server = two_tenants().await;
    let change =
        |tag: &str, most: u32| server.put(PATH).header("if-match", tag).json(&json!({"max_runs": most}));
    change("*", 1).send().await.problem(409, "conflict");
    let first =
        server.put(PATH).header("if-none-match", "*").json(&json!({"max_runs": 1})).send().await.ok(200);
    let tag = format!("\"{}\"", first["revision"]);
    change("\"999\"", 2).send().await.problem(409, "conflict");
    change(&tag, 2).send().await.ok(200);
    change(&tag, 3).send().await.problem(409, "conflict");
    let paused = server.post(&format!("{PATH}/pause")).json(&json!({"reason": "audit"})).send().await.ok(200);
    assert_eq!(paused["paused"]["reason"], json!("audit"));
    for tenant in ["default", "other"] {
        let refused = start_of(&server, tenant, "api").send().await.problem(429, "limit_reached");
        assert!(text(&refused["detail"]).contains("is paused"), "{refused}");
    }
    // A change of the document does not resume it.
    change("*", 4).send().await.ok(200);
    start_of(&server, "other", "api").send().await.problem(429, "limit_reached");
    server.post(&format!("{PATH}/resume")).send().await.ok(200);
    start_of(&server, "other", "api").send().await.ok(200);
    server.delete(PATH).send().await.ok(204);
    server.delete(PATH).send().await.problem(404, "not_found");
    server.get(PATH).send().await.problem(404, "not_found");
    server.get("/api/v1/limits/system.per-repo").send().await.problem(404, "not_found");
}

#[tokio::test]
async fn limits_of_the_system_are_bounded_in_number_and_per_workflow() {
    let server = server().await;
    let save = async |name: &str, workflow: &str| {
        let document = json!({"max_runs": 5, "applies_to": {"workflows": [workflow]}});
        server.put(&format!("/api/v1/system/limits/{name}")).json(&document).send().await
    };
    for number in 0..4 {
        save(&format!("w{number}"), "wf").await.ok(200);
    }
    let problem = save("w4", "w*").await.problem(400, "invalid_request");
    assert!(text(&problem["error"]).contains("applies_to: 5 limits would apply"), "{problem}");
    for number in 4..16 {
        save(&format!("l{number}"), &format!("other{number}")).await.ok(200);
    }
    save("l16", "another").await.problem(409, "quota_reached");
    save(&"x".repeat(58), "another").await.problem(400, "invalid_request");
    let bad = server.put(PATH).json(&json!({"max_runs": 1, "on_full": "never"})).send().await;
    bad.problem(400, "invalid_request");
    // Those of the system count among the 8 of a workflow: a tenant has 4 of its own beside them.
    for number in 0..4 {
        put(&server, &format!("own{number}"), json!({"max_runs": 5})).await.ok(200);
    }
    put(&server, "own4", json!({"max_runs": 5})).await.problem(400, "invalid_request");
    put(&server, "own3", json!({"max_runs": 6})).await.ok(200);
    let page = server.get("/api/v1/system/limits?limit=10").send().await.ok(200);
    let cursor = text(&page["next_cursor"]);
    let rest = server.get(&format!("/api/v1/system/limits?limit=10&cursor={cursor}")).send().await.ok(200);
    assert_eq!((page["items"].as_array().unwrap().len(), rest["items"].as_array().unwrap().len()), (10, 6));
}

#[tokio::test]
async fn a_raised_cap_of_the_system_starts_what_waits_in_tenants_that_inherit_it() {
    let server = two_tenants().await;
    let cap = async |runs: u32| {
        let config = json!({"scope": "system", "data": {"limits": {"max_concurrent_runs": runs}}});
        server.put("/api/v1/config").json(&config).send().await.ok(204);
    };
    cap(1).await;
    for tenant in ["default", "other"] {
        let queues = server.put("/api/v1/limits/tenant-runs").header("x-tenant-id", tenant);
        queues.json(&json!({"on_full": "queue"})).send().await.ok(200);
        start_of(&server, tenant, "a").send().await.ok(200);
        start_of(&server, tenant, "b").send().await.ok(202);
        start_of(&server, tenant, "c").send().await.ok(202);
    }
    cap(2).await;
    for tenant in ["default", "other"] {
        let usage =
            server.get("/api/v1/limits/tenant-runs").header("x-tenant-id", tenant).send().await.ok(200);
        assert_eq!((&usage["usage"]["live"], &usage["usage"]["queued"]), (&json!(2), &json!(1)), "{usage}");
    }
}

/// Another process has written it, and died before it brought it to the tenants.
#[tokio::test]
async fn a_change_that_its_author_did_not_bring_to_the_tenants_comes_to_them() {
    let server = two_tenants().await;
    let set = async |runs_max: u32| {
        let limits = Limits { runs_max: Some(runs_max), on_full: Some(OnFull::Queue), ..Limits::default() };
        let set = SetLimits { scope: LimitScope::System, limits, keeps_quotas: false };
        server.store.call(set).await.unwrap();
    };
    let until_usage = async |limit: &str, live: u64, queued: u64| {
        for tenant in ["default", "other"] {
            let path = format!("/api/v1/limits/{limit}");
            let view = async || server.get(&path).header("x-tenant-id", tenant).send().await.json();
            let is_so = |view: &Value| view["usage"]["live"] == live && view["usage"]["queued"] == queued;
            until_matches(&format!("{limit} in {tenant}"), view, is_so).await;
        }
    };
    set(1).await;
    for tenant in ["default", "other"] {
        start_of(&server, tenant, "a").send().await.ok(200);
        for repo in ["b", "c"] {
            start_of(&server, tenant, repo).send().await.ok(202);
        }
    }
    set(2).await;
    until_usage("tenant-runs", 2, 1).await;

    let document: LimitDocument = serde_json::from_value(json!({"max_runs": 0, "on_full": "queue"})).unwrap();
    let limit = |revision| StoredLimit {
        name: "system.none".parse().unwrap(),
        document: document.clone(),
        revision,
        saved_at: Timestamp::ZERO,
        paused: None,
    };
    let save = async |expected: u64, limits: &[StoredLimit]| {
        let text = serde_json::to_string(limits).unwrap();
        let save = SaveDocument { name: DocumentName::Limits, expected, text };
        assert_eq!(server.store.call(save).await, Ok(true));
    };
    save(0, &[limit(1)]).await;
    set(1_000).await;
    until_usage("system.none", 0, 0).await;
    for tenant in ["default", "other"] {
        until_matches(
            "a start waits for the limit of the system",
            async || start_of(&server, tenant, "d").send().await.json(),
            |start| start["blocked_by"]["limit"] == "system.none",
        )
        .await;
    }
    save(1, &[]).await;
    for tenant in ["default", "other"] {
        let runs = "/api/v1/workflow-runs?status=queued";
        let queued = async || server.get(runs).header("x-tenant-id", tenant).send().await.ok(200);
        until_matches("no run waits", queued, |list| list["items"].as_array().unwrap().is_empty()).await;
    }
}
