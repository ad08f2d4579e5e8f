//! Paths, methods, media types, and what is not HTTP.

use interlock_poll::LIMIT;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::Answer;
use crate::server::{Server, one_step};

/// Sends these bytes and reads until the server closes the connection.
pub(crate) async fn exchange(server: &Server, bytes: &[u8]) -> Answer {
    let talk = async {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        Answer::read(&mut stream).await
    };
    tokio::time::timeout(LIMIT, talk).await.expect("an answer in time")
}

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let server = Server::start().await;
    for path in
        ["/", "/api/v1", "/api/v1/nope", "/api/v1/lockers", "/api/v1/dlq/", "/api/v1/workflows/", "//"]
    {
        server.get(path).send().await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_wrong_method_is_refused_with_the_allowed_ones() {
    let server = Server::start().await;
    let answer = server.put("/api/v1/workflows").send().await;
    answer.problem(405, "method_not_allowed");
    let allowed = answer.header("allow").unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    server.get("/api/v1/workflows/wf/runs").send().await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn a_body_that_is_not_json_is_an_unsupported_media_type() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let start = || server.post("/api/v1/workflows/wf/runs");
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"] {
        let answer = start().header("content-type", media_type).raw(b"{}").send().await;
        answer.problem(415, "unsupported_media_type");
    }
    for media_type in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"] {
        start().header("content-type", media_type).raw(b"{}").send().await.ok(200);
    }
    start().raw(b"{}").send().await.problem(415, "unsupported_media_type");
    start().send().await.ok(200);
    start().header("content-type", "text/plain").send().await.ok(200);
}

#[tokio::test]
async fn a_missing_body_is_refused() {
    let server = Server::start().await;
    for path in ["/api/v1/workflows", "/api/v1/workers/w/claim", "/api/v1/keys"] {
        server.post(path).send().await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn bytes_that_are_not_http_are_refused_with_a_problem() {
    let server = Server::start().await;
    let many = "a: b\r\n".repeat(200);
    let large = format!("a: {}\r\n", "b".repeat(100 * 1024));
    for request in [
        "nonsense\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nIdempotency-Key: a\u{1}b\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nbad header\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\n{many}\r\n"),
        format!("GET / HTTP/1.1\r\n{large}\r\n"),
    ] {
        exchange(&server, request.as_bytes()).await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn headers_that_are_not_text_are_refused() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    for header in ["x-tenant-id", "idempotency-key"] {
        let head = format!(
            "POST /api/v1/workflows/wf/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}: "
        );
        let request = [head.as_bytes(), b"\xff\xfe", b"\r\ncontent-length: 0\r\n\r\n"].concat();
        exchange(&server, &request).await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = Server::start().await;
    let one = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answers = exchange(&server, [one, one, last].concat().as_bytes()).await;
    let text = String::from_utf8(answers.body).unwrap();
    assert_eq!(text.matches("{\"status\":\"ok\"}").count(), 3, "{text}");
}

#[tokio::test]
async fn the_description_is_openapi_3_1_and_served_without_a_key() {
    let server = Server::with_key("secret").await;
    let document = server.get("/openapi.json").send().await.ok(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/api/v1/workflows/{id}/runs"]["post"].is_object());
    assert!(document["components"]["schemas"]["Problem"]["properties"]["retry_after_ms"].is_object());
    assert_eq!(server.get("/healthz").send().await.ok(200), json!({"status": "ok"}));
    let ready = json!({"ready": true, "store": true, "bus": true});
    assert_eq!(server.get("/readyz").send().await.ok(200), ready);
    assert_eq!(server.get("/metrics").send().await.status, 200);
}
