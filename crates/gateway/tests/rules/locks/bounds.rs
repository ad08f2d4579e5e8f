//! Bounds of requests, and quotas.

use interlock_control::Settings;
use interlock_model::lock::LockLimits;
use serde_json::json;

use super::{acquire, release, request, take, until_waiting, wait_for, with};
use crate::server::{Server, empty_store, patient};

#[tokio::test]
async fn requests_out_of_bounds_are_refused() {
    let server = Server::start().await;
    let long = "x".repeat(256);
    let good = request("r", "o");
    let bad = [
        with(good.clone(), "ttl_ms", 99),
        with(good.clone(), "ttl_ms", 86_400_001),
        with(good.clone(), "ttl_ms", -1),
        with(good.clone(), "ttl_ms", 1.5),
        with(good.clone(), "wait_ms", 60_001),
        with(good.clone(), "resource", ""),
        with(good.clone(), "resource", "a b"),
        with(good.clone(), "resource", "é"),
        with(good.clone(), "resource", long.as_str()),
        with(good.clone(), "owner", ""),
        with(good.clone(), "owner", "a\nb"),
        with(good.clone(), "owner", long.as_str()),
        with(good.clone(), "request_id", ""),
        with(good.clone(), "token", "a b"),
        with(good.clone(), "mode", "both"),
        with(good.clone(), "surprise", 1),
        json!({"resource": "r", "owner": "o"}),
        json!({"resource": "r", "ttl_ms": 1_000}),
        json!({"owner": "o", "ttl_ms": 1_000}),
    ];
    for body in &bad {
        acquire(&server, body).await.problem(400, "invalid_request");
    }
    let problem = acquire(&server, &bad[0]).await.problem(400, "invalid_request");
    assert!(problem["error"].as_str().unwrap().contains("from 100 to 86400000"), "{problem}");
    for (resource, ttl_ms) in [("shortest", 100), ("longest", 86_400_000)] {
        acquire(&server, &with(request(resource, "o"), "ttl_ms", ttl_ms)).await.ok(200);
    }
}

#[tokio::test]
async fn other_calls_out_of_bounds_are_refused() {
    let server = Server::start().await;
    let grant = take(&server, "r", "o").await;
    let token = &grant["token"];
    let long = "x".repeat(1_025);
    let bad = [
        ("renew", json!({"resource": "r", "token": token})),
        ("renew", json!({"resource": "r", "token": token, "ttl_ms": 99})),
        ("renew", json!({"resource": "r", "token": token, "ttl_ms": 86_400_001})),
        ("renew", json!({"resource": "r", "ttl_ms": 1_000})),
        ("release", json!({"resource": "r"})),
        ("release", json!({"resource": "r", "token": ""})),
        ("release", json!({"resource": "r", "token": token, "owner": "o"})),
        ("force-release", json!({"resource": "r", "expect_token": token})),
        ("force-release", json!({"resource": "r", "expect_token": token, "reason": ""})),
        ("force-release", json!({"resource": "r", "expect_token": token, "reason": " \n"})),
        ("force-release", json!({"resource": "r", "expect_token": token, "reason": long})),
        ("force-release", json!({"resource": "r", "reason": "no token"})),
    ];
    for (verb, body) in bad {
        let answer = server.post(&format!("/api/v1/locks/{verb}")).json(&body).send().await;
        answer.problem(400, "invalid_request");
    }
    let queries = [
        "?resource=a%20b",
        "?limit=0",
        "?limit=501",
        "?cursor=nonsense",
        "/history?resource=%00",
        // An empty filter is a mistake and must not list everything.
        "?resource=",
        "?resource",
        "/history?resource=",
    ];
    for query in queries {
        server.get(&format!("/api/v1/locks{query}")).send().await.problem(400, "invalid_request");
    }
    for verb in ["renew", "release"] {
        let unknown = json!({"resource": "unknown", "token": token});
        let unknown = if verb == "renew" { with(unknown, "ttl_ms", 1_000) } else { unknown };
        let answer = server.post(&format!("/api/v1/locks/{verb}")).json(&unknown).send().await;
        answer.problem(404, "not_found");
    }
    release(&server, &grant).await.ok(204);
}

async fn limited(limits: LockLimits) -> Server {
    Server::on(empty_store(), Settings { lock_limits: limits, ..patient() }).await
}

#[tokio::test]
async fn a_tenant_holds_at_most_its_quota_of_locks() {
    let server = limited(LockLimits { held_max: 2, ..LockLimits::default() }).await;
    let first = take(&server, "r1", "o").await;
    take(&server, "r2", "o").await;
    let problem = acquire(&server, &request("r3", "o")).await.problem(429, "lock_quota");
    assert_eq!((&problem["limit"], &problem["current"]), (&json!(2), &json!(2)));
    let other = server.post("/api/v1/locks/acquire").header("x-tenant-id", "other").json(&request("r3", "o"));
    other.send().await.ok(200);
    release(&server, &first).await.ok(204);
    take(&server, "r3", "o").await;
}

#[tokio::test]
async fn a_tenant_has_at_most_its_quota_of_waiting_requests() {
    let server = limited(LockLimits { waiting_max: 1, ..LockLimits::default() }).await;
    take(&server, "r1", "o").await;
    take(&server, "r2", "o").await;
    let _waiting = wait_for(&server, request("r1", "w"));
    until_waiting(&server, "r1", 1).await;
    let problem =
        acquire(&server, &with(request("r2", "w"), "wait_ms", 1_000)).await.problem(429, "lock_quota");
    assert_eq!((&problem["limit"], &problem["current"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_full_queue_refuses_further_requests() {
    let server = limited(LockLimits { line_max: 1, ..LockLimits::default() }).await;
    take(&server, "db", "o").await;
    let _waiting = wait_for(&server, request("db", "w1"));
    until_waiting(&server, "db", 1).await;
    let problem =
        acquire(&server, &with(request("db", "w2"), "wait_ms", 60_000)).await.problem(409, "lock_held");
    assert!(problem["error"].as_str().unwrap().contains("its queue is full"), "{problem}");
    assert_eq!((&problem["holder"], &problem["position"]), (&json!("o"), &json!(2)));
}
