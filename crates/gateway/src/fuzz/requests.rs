//! Whole requests, as `METHOD /path?query`, headers, an empty line and a body: none is an error of the server.

use axum::Router;
use axum::body::{Body, to_bytes};
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use interlock_api::Problem;
use interlock_fuzz::Target;
use interlock_fuzz::json::{value, written_otherwise};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::state::tests::app;
use crate::{openapi, router, routes};

/// The longest error, in bytes.
const PROBLEM_BYTES_MAX: usize = 16 << 10;

const WORKFLOW: &str = r#"{"id": "wf", "name": "wf", "steps": {"a": {"type": "worker", "topic": "t"}}}"#;

/// Every documented method with its path.
fn operations() -> Vec<(Method, String)> {
    let mut document = openapi::document();
    openapi::operations(&mut document).map(|(path, method, _)| (method, path.to_owned())).collect()
}

/// Names of all kinds, for the places in a path.
const NAMES: [&str; 7] =
    ["wf", "w-1", "0192f0c1-0000-7000-8000-000000000001:a@1", "lock_busy", "%2e%2e", "%00", "nothing"];

const QUERIES: [&str; 14] = [
    "",
    "limit=1",
    "limit=0",
    "limit=1e9",
    "cursor=61",
    "cursor=zz",
    "status=running",
    "status=",
    "limit=1&limit=2",
    "%ff=%zz",
    "run_id=x",
    "wait_ms=99999999999",
    "resource=a&resource=a",
    "dry_run=maybe",
];

/// Fields of requests, with values of the right and of the wrong type.
fn body() -> impl Strategy<Value = String> {
    let names = select(vec![
        "id",
        "name",
        "steps",
        "topics",
        "max_jobs",
        "wait_ms",
        "lease_ms",
        "fence",
        "output",
        "error",
        "retryable",
        "retry_after_ms",
        "resource",
        "owner",
        "mode",
        "ttl_ms",
        "token",
        "policy",
        "scope",
        "scope_id",
        "data",
        "role",
        "tenant",
        "expires_in_ms",
        "percent",
        "message",
        "candidate",
        "share",
        "reason",
        "request_id",
        "job_ids",
        "drain",
        "max_runs",
        "on_full",
        "queue",
        "rate",
        "key",
        "workflow",
        "labels",
        "to",
    ]);
    let plain = prop_oneof![
        select(vec![
            json!("wf"),
            json!("exclusive"),
            json!(1),
            json!(60_000),
            json!(["t"]),
            json!(true),
            json!({})
        ]),
        value(),
    ];
    let fields = proptest::collection::hash_map(names, plain, 0..6);
    let choices = proptest::collection::vec(any::<bool>(), 1..9);
    let object = (fields, choices).prop_map(|(fields, choices)| written_otherwise(&json!(fields), &choices));
    prop_oneof![6 => object, 1 => value().prop_map(|value| value.to_string()), 1 => "\\PC{0,60}"]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let headers = select(vec![
        "content-type: application/json",
        "content-type: application/json\nidempotency-key: k",
        "content-type: application/json\nx-tenant-id: acme",
        "content-type: text/plain",
        "x-tenant-id: no tenant",
        "content-type: application/json\nx-interlock-label: a=b\nx-interlock-priority: 9",
        "content-type: application/json\nx-interlock-label: b",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\ncontent-type: application/json",
    ]);
    (select(operations()), select(&NAMES[..]), select(&QUERIES[..]), headers, body()).prop_map(
        |((method, path), name, query, headers, body)| {
            let parts = path.split('/').map(|part| if part.starts_with('{') { name } else { part });
            let path = parts.collect::<Vec<_>>().join("/");
            format!("{method} {path}?{query}\n{headers}\n\n{body}").into_bytes()
        },
    )
}

/// The request that the bytes describe, if HTTP would let it through.
fn read(input: &[u8]) -> Option<Request<Body>> {
    let end = input.windows(2).position(|pair| pair == b"\n\n")?;
    let head = std::str::from_utf8(&input[..end]).ok()?;
    let mut lines = head.lines();
    let (method, uri) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        request = request.header(name, value.trim());
    }
    request.body(Body::from(input[end + 2..].to_vec())).ok()
}

/// A gateway with one workflow and one run.
async fn gateway() -> Router {
    let app = app().await;
    let router = router::router(&app, routes::served(&app.settings));
    for (path, body) in [("/api/v1/workflows", WORKFLOW), ("/api/v1/workflows/wf/runs", "{}")] {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(Body::from(body));
        let answer = router.clone().oneshot(request.expect("a request")).await.expect("an answer");
        assert!(answer.status().is_success());
    }
    router
}

async fn expect_answer(answer: Response<Body>) {
    let status = answer.status();
    assert!(!status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE, "{status}");
    if status.is_success() || status.is_redirection() {
        return;
    }
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/problem+json");
    let body = to_bytes(answer.into_body(), PROBLEM_BYTES_MAX).await.expect("an error is short");
    if !body.is_empty() {
        let problem: Value = serde_json::from_slice(&body).expect("an error is JSON");
        let known: Problem = serde_json::from_value(problem.clone()).expect("an error is a problem document");
        assert_eq!(json!(known.status), json!(status.as_u16()), "{problem}");
    }
}

#[test]
fn no_request_is_an_error_of_the_server() {
    // Time passes at once, so that nothing has to be waited for.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime can be made");
    Target::new(env!("CARGO_MANIFEST_DIR"), "requests").fuzz(request(), |input| {
        let Some(request) = read(input) else { return };
        runtime.block_on(async {
            let answer = gateway().await.oneshot(request).await.expect("an answer");
            expect_answer(answer).await;
        });
    });
}
