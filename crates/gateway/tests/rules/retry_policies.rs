//! Retry policies: shown, changed and rolled back over HTTP.

use interlock_control::settings::Settings;
use interlock_model::contention::{AdmissionStrategy, RunStrategy};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::server::{Server, empty_store};

pub(crate) const LOCK_BUSY: &str = "/api/v1/retry-policies/lock_busy";

pub(crate) async fn set(server: &Server, body: &Value) -> Answer {
    server.put(LOCK_BUSY).json(body).send().await
}

async fn roll_back(server: &Server) -> Answer {
    server.post(&format!("{LOCK_BUSY}/rollback")).send().await
}

#[tokio::test]
async fn an_unchanged_policy_is_as_configured() {
    let server = Server::start().await;
    let listed = server.get("/api/v1/retry-policies").send().await.ok(200);
    let expected = json!({"items": [
        {"scope": "admission", "policy": "fixed:10ms", "max_wait_ms": 2_000, "lock_ttl_ms": 10_000,
            "version": 0, "by": null, "at": null, "reason": null, "restores": null},
        {"scope": "lock_busy", "policy": "fixed:500ms", "max_wait_ms": 3_000, "lock_ttl_ms": 30_000,
            "version": 0, "by": null, "at": null, "reason": null, "restores": null},
    ], "next_cursor": null});
    assert_eq!(listed, expected);
    let one = server.get(LOCK_BUSY).send().await.ok(200);
    assert_eq!((&one["policy"], &one["versions"]), (&json!("fixed:500ms"), &json!([])));
    server.get("/api/v1/retry-policies/nothing").send().await.problem(404, "not_found");
    server.get("/api/v1/retry-policies?limit=0").send().await.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_change_is_in_force_when_it_is_acknowledged_and_status_shows_who_and_when() {
    let server = Server::start().await;
    let body = json!({"policy": "bounded_jitter:500ms:30%", "reason": "waves"});
    let changed = set(&server, &body).await.ok(200);
    assert_eq!((&changed["version"], &changed["by"]), (&json!(1), &json!("anonymous")));
    assert_eq!((&changed["max_wait_ms"], &changed["reason"]), (&json!(3_000), &json!("waves")));
    let status = server.get("/api/v1/status").send().await.ok(200);
    let in_force = &status["retry_policies"][1];
    assert_eq!(in_force, &changed);
    assert!(in_force["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{in_force}");
    let hyphenated = server.get("/api/v1/retry-policies/lock-busy").send().await.ok(200);
    assert_eq!(hyphenated["policy"], "bounded_jitter:500ms:30%");
}

#[tokio::test]
async fn a_policy_of_every_kind_can_be_changed_again() {
    let server = Server::start().await;
    for policy in [
        "fixed:700ms",
        "bounded_jitter:500ms:30%",
        "full_jitter:10ms:2000ms",
        "equal_jitter:10ms:2000ms",
        "decorrelated_jitter:10ms:2000ms",
        "exponential:100ms:1.5:30000ms",
        "fixed:900ms",
    ] {
        set(&server, &json!({"policy": policy})).await.ok(200);
        assert_eq!(server.get(LOCK_BUSY).send().await.ok(200)["policy"], policy);
    }
}

#[tokio::test]
async fn a_rollback_restores_the_previous_policy_and_the_history_has_all() {
    let server = Server::start().await;
    roll_back(&server).await.problem(409, "conflict");
    set(&server, &json!({"policy": "fixed:700ms", "max_wait_ms": 100, "lock_ttl_ms": 5_000})).await.ok(200);
    set(&server, &json!({"policy": "fixed:900ms"})).await.ok(200);
    let restored = roll_back(&server).await.ok(200);
    assert_eq!((&restored["policy"], &restored["restores"]), (&json!("fixed:700ms"), &json!(1)));
    assert_eq!((&restored["max_wait_ms"], &restored["lock_ttl_ms"]), (&json!(100), &json!(5_000)));
    let configured = roll_back(&server).await.ok(200);
    assert_eq!((&configured["policy"], &configured["version"]), (&json!("fixed:500ms"), &json!(4)));
    roll_back(&server).await.problem(409, "conflict");
    let history = server.get(LOCK_BUSY).send().await.ok(200)["versions"].clone();
    let numbers: Vec<_> =
        history.as_array().unwrap().iter().map(|version| version["version"].clone()).collect();
    assert_eq!(numbers, [4, 3, 2, 1]);
    assert_eq!((&history[0]["tuning"], &history[0]["restores"]), (&json!(null), &json!(0)));
    assert_eq!(
        history[2]["tuning"],
        json!({"policy": "fixed:900ms", "max_wait_ms": 100, "lock_ttl_ms": 5_000})
    );
}

#[tokio::test]
async fn a_concurrent_change_is_not_overwritten() {
    let server = Server::start().await;
    set(&server, &json!({"policy": "fixed:700ms", "expected_version": 0})).await.ok(200);
    let stale = set(&server, &json!({"policy": "fixed:900ms", "expected_version": 0})).await;
    let problem = stale.problem(409, "conflict");
    assert!(problem["error"].as_str().unwrap().contains("at version 1"), "{problem}");
    let stale =
        server.post(&format!("{LOCK_BUSY}/rollback")).json(&json!({"expected_version": 7})).send().await;
    stale.problem(409, "conflict");
    assert_eq!(server.get(LOCK_BUSY).send().await.ok(200)["policy"], "fixed:700ms");
}

#[tokio::test]
async fn an_invalid_policy_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    for body in [
        json!({}),
        json!({"policy": "soon"}),
        json!({"policy": "fixed:0ms"}),
        json!({"policy": "fixed:500ms", "max_wait_ms": 60_001}),
        json!({"policy": "fixed:500ms", "lock_ttl_ms": 99}),
        json!({"policy": "fixed:500ms", "reason": ""}),
        json!({"policy": "fixed:500ms", "reason": "x".repeat(513)}),
        json!({"policy": "fixed:500ms", "base": 1}),
        json!({"policy": {"kind": "fixed", "delay_ms": 500}}),
    ] {
        set(&server, &body).await.problem(400, "invalid_request");
    }
    let unknown =
        server.put("/api/v1/retry-policies/nothing").json(&json!({"policy": "fixed:5ms"})).send().await;
    unknown.problem(404, "not_found");
    assert_eq!(server.get(LOCK_BUSY).send().await.ok(200)["version"], 0);
}

#[tokio::test]
async fn only_keys_for_every_tenant_may_change_policies() {
    let server = Server::with_key("root").await;
    let body = json!({"policy": "fixed:700ms"});
    let rollout = json!({"candidate": "fixed:700ms", "share_percent": 10, "duration_ms": 60_000});
    for role in ["operator", "starter", "worker", "viewer", "admin"] {
        let asked = json!({"name": role, "role": role, "tenant": "acme"});
        let made = server.post("/api/v1/keys").header("x-api-key", "root").json(&asked).send().await.ok(201);
        let key = made["key"].as_str().unwrap();
        for (method, path, body) in [
            ("PUT", LOCK_BUSY.to_owned(), body.clone()),
            ("POST", format!("{LOCK_BUSY}/rollback"), json!({})),
            ("POST", "/api/v1/rollouts".to_owned(), rollout.clone()),
            ("POST", "/api/v1/rollouts/ro-1/abort".to_owned(), json!({})),
            ("POST", "/api/v1/rollouts/ro-1/promote".to_owned(), json!({})),
        ] {
            let answer = server.request(method, &path).header("x-api-key", key).json(&body).send().await;
            answer.problem(403, "forbidden");
        }
    }
    let changed = server.put(LOCK_BUSY).header("x-api-key", "root").json(&body).send().await.ok(200);
    assert_eq!(changed["by"], "bootstrap key");
}

#[tokio::test]
async fn status_shows_the_strategies_of_the_process() {
    let status = async |settings| {
        let server = Server::on(empty_store(), settings).await;
        server.get("/api/v1/status").send().await.ok(200)["strategies"].clone()
    };
    assert_eq!(status(Settings::default()).await, json!({"admission": "atomic", "run": "inbox"}));
    let lock = Settings {
        admission_strategy: AdmissionStrategy::Lock,
        run_strategy: RunStrategy::Lock,
        ..Settings::default()
    };
    assert_eq!(status(lock).await, json!({"admission": "lock", "run": "lock"}));
}
