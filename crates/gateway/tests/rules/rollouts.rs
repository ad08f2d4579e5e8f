//! Rollouts over HTTP.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::retry_policies::{LOCK_BUSY, set};
use crate::server::Server;

const ROLLOUTS: &str = "/api/v1/rollouts";

fn wanted() -> Value {
    json!({"candidate": "bounded_jitter:500ms:30%", "share_percent": 12.5, "duration_ms": 604_800_000})
}

async fn start(server: &Server, body: &Value) -> Answer {
    server.post(ROLLOUTS).json(body).send().await
}

/// Starts a rollout and returns its id.
async fn started(server: &Server) -> String {
    start(server, &wanted()).await.ok(201)["id"].as_str().unwrap().to_owned()
}

async fn end(server: &Server, id: &str, verb: &str) -> Answer {
    server.post(&format!("{ROLLOUTS}/{id}/{verb}")).json(&json!({"reason": "enough seen"})).send().await
}

#[tokio::test]
async fn a_started_rollout_is_shown_with_both_arms() {
    let server = Server::start().await;
    let begun = start(&server, &wanted()).await.ok(201);
    assert_eq!((&begun["state"], &begun["share_percent"]), (&json!("running"), &json!(12.5)));
    assert_eq!(begun["guards"], json!({"ratio": 2.0, "min_samples": 50}));
    let arm = |name: &str, policy: &str| {
        json!({"arm": name, "policy": policy, "results": 0, "retries": 0, "outstanding": 0,
            "has_enough_samples": false,
            "retries_per_minute": null, "retries_per_result": null, "lock_wait_p95_ms": null,
            "lock_wait_p99_ms": null, "result_latency_p95_ms": null, "first_retry_success": null})
    };
    let arms = json!([arm("control", "fixed:500ms"), arm("candidate", "bounded_jitter:500ms:30%")]);
    assert_eq!(begun["arms"], arms);
    assert!(begun["verdict"].as_str().unwrap().starts_with("too few samples"), "{begun}");
    assert!(begun["note"].as_str().unwrap().contains("inbox"), "{begun}");
    assert_eq!(begun["history"][0]["event"], "started");
    let id = begun["id"].as_str().unwrap();
    let shown = server.get(&format!("{ROLLOUTS}/{id}")).send().await.ok(200);
    assert_eq!((&shown["id"], &shown["arms"]), (&begun["id"], &arms));
    let status = server.get("/api/v1/status").send().await.ok(200)["rollout"].clone();
    assert_eq!((&status["id"], &status["candidate"]), (&begun["id"], &json!("bounded_jitter:500ms:30%")));
    server.get(&format!("{ROLLOUTS}/ro-none")).send().await.problem(404, "not_found");
}

#[tokio::test]
async fn a_rollout_without_a_duration_lasts_seven_days() {
    let server = Server::start().await;
    let body = json!({"candidate": "bounded_jitter:500ms:30%", "share_percent": 10});
    let begun = start(&server, &body).await.ok(201);
    let time = |name: &str| begun[name].as_str().unwrap().parse::<interlock_model::Timestamp>().unwrap();
    assert_eq!(time("ends_at").since(time("started_at")), std::time::Duration::from_hours(7 * 24));
}

#[tokio::test]
async fn a_second_rollout_and_a_change_of_the_control_are_refused_meanwhile() {
    let server = Server::start().await;
    let id = started(&server).await;
    start(&server, &wanted()).await.problem(409, "conflict");
    set(&server, &json!({"policy": "fixed:700ms"})).await.problem(409, "conflict");
    server.post(&format!("{LOCK_BUSY}/rollback")).send().await.problem(409, "conflict");
    let admission = server.put("/api/v1/retry-policies/admission").json(&json!({"policy": "fixed:5ms"}));
    admission.send().await.ok(200);
    end(&server, &id, "abort").await.ok(200);
    set(&server, &json!({"policy": "fixed:700ms"})).await.ok(200);
}

#[tokio::test]
async fn a_promotion_puts_the_candidate_in_force_and_an_abort_does_not() {
    for (verb, state, policy) in
        [("promote", "promoted", "bounded_jitter:500ms:30%"), ("abort", "aborted", "fixed:500ms")]
    {
        let server = Server::start().await;
        let id = started(&server).await;
        let ended = end(&server, &id, verb).await.ok(200);
        assert_eq!((&ended["state"], &ended["verdict"]), (&json!(state), &json!("enough seen")));
        assert!(ended["ended_at"].is_string(), "{ended}");
        assert_eq!(ended["history"][1]["by"], "anonymous");
        assert_eq!(server.get(LOCK_BUSY).send().await.ok(200)["policy"], policy);
        assert_eq!(server.get("/api/v1/status").send().await.ok(200)["rollout"], json!(null));
        end(&server, &id, "promote").await.problem(409, "conflict");
        end(&server, "ro-none", verb).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn rollouts_are_listed_newest_first_in_pages() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = started(&server).await;
        end(&server, &id, "abort").await.ok(200);
        ids.insert(0, id);
    }
    let mut found = Vec::new();
    let mut path = format!("{ROLLOUTS}?limit=2");
    loop {
        let page = server.get(&path).send().await.ok(200);
        found.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{ROLLOUTS}?limit=2&cursor={cursor}");
    }
    assert_eq!(found.len(), 3);
    // Two of the same millisecond may have either order.
    found.sort();
    ids.sort();
    assert_eq!(found, ids);
}

#[tokio::test]
async fn an_invalid_rollout_is_refused() {
    let server = Server::start().await;
    for (member, value) in [
        ("candidate", json!("soon")),
        ("candidate", json!("fixed:500ms")),
        ("share_percent", json!(0)),
        ("share_percent", json!(100)),
        ("duration_ms", json!(999)),
        ("duration_ms", json!(u64::MAX)),
        ("guards", json!({"ratio": 0.5})),
        ("guards", json!({"min_samples": 0})),
        ("guards", json!({"patience": 1})),
        ("reason", json!("")),
        ("scope", json!("admission")),
    ] {
        let mut body = wanted();
        body[member] = value;
        start(&server, &body).await.problem(400, "invalid_request");
    }
    assert_eq!(server.get(ROLLOUTS).send().await.ok(200)["items"], json!([]));
}
