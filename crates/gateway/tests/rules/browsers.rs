//! A web page on the owner's machine cannot use a server that has no API keys.

use serde_json::json;

use crate::server::{Server, one_step};

#[tokio::test]
async fn a_page_of_another_site_creates_no_admin_key() {
    let server = Server::start().await;
    let create = || server.post("/api/v1/keys").json(&json!({"name": "mine", "role": "admin"}));
    for (header, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        // The name that an attacker makes resolve to 127.0.0.1.
        ("host", "evil.example:8081"),
    ] {
        let refused = create().header(header, value).send().await;
        refused.problem(403, "forbidden");
        // There is no key to blame.
        let problem = refused.json();
        assert!(!problem["title"].as_str().unwrap().contains("key"), "{problem}");
        assert!(!problem["error"].as_str().unwrap().contains("this key"), "{problem}");
    }
    create().send().await.ok(201);
}

#[tokio::test]
async fn a_rebound_name_reads_nothing_and_a_probe_under_any_name_is_answered() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.get("/api/v1/workflows").header("host", "evil.example").send().await.problem(403, "forbidden");
    server.get("/healthz").header("host", "10.1.2.3").send().await.ok(200);
    assert_eq!(server.get("/metrics").header("host", "10.1.2.3").send().await.status, 200);
}

#[tokio::test]
async fn answers_forbid_browsers_to_run_frame_guess_or_keep_them() {
    let server = Server::start().await;
    for path in ["/healthz", "/api/v1/runs", "/api/v1/nothing"] {
        let answer = server.get(path).send().await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
    }
}

#[tokio::test]
async fn with_keys_any_name_is_answered() {
    let server = Server::start().await;
    let created =
        server.post("/api/v1/keys").json(&json!({"name": "ops", "role": "admin"})).send().await.ok(201);
    let key = created["key"].as_str().unwrap().to_owned();
    let list = server.get("/api/v1/workflows").header("host", "10.1.2.3").header("x-api-key", &key);
    list.send().await.ok(200);
}
