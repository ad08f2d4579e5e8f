//! Workflow documents over HTTP: as YAML too, within the same bounds, and only of the caller's tenant.

use serde_json::json;

use crate::client::Answer;
use crate::server::Server;

const BUILD: &str = "id: wf\nname: Build\nsteps:\n  a: &a {type: worker, topic: t}\n  b: *a\n";

async fn save(server: &Server, media_type: &str, text: &str) -> Answer {
    server.post("/api/v1/workflows").header("content-type", media_type).raw(text.as_bytes()).send().await
}

#[tokio::test]
async fn a_document_may_be_yaml() {
    let server = Server::start().await;
    for media_type in
        ["application/yaml", "application/x-yaml; charset=utf-8", "text/yaml", "application/vnd.x+yaml"]
    {
        save(&server, media_type, BUILD).await.ok(201);
    }
    let saved = server.get("/api/v1/workflows/wf").send().await.ok(200);
    assert_eq!((&saved["version"], &saved["steps"]["b"]["topic"]), (&json!(4), &json!("t")));
    save(&server, "application/yaml; charset=latin1", BUILD).await.problem(415, "unsupported_media_type");
    save(&server, "text/plain", BUILD).await.problem(415, "unsupported_media_type");
    let start = server.post("/api/v1/workflows/wf/runs").header("content-type", "application/yaml");
    start.raw(b"n: 1").send().await.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn yaml_has_the_bounds_of_json_and_its_errors_name_the_line() {
    let server = Server::start().await;
    let laughs: Vec<String> = (1..10)
        .map(|level| format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 10].join(", ")))
        .collect();
    for (text, expected) in [
        (format!("l0: &l0 [lol]\n{}", laughs.concat()), "larger than the maximum of 2097152 bytes"),
        (format!("a: {}", "[".repeat(100)), "64 levels"),
        (BUILD.replace("topic", "topci"), "did you mean `topic`? (line 4)"),
        (BUILD.replace("name: Build", "name: Build\nname: Twice"), "given twice in one object (line 3)"),
        (BUILD.replace("b: *a", "b: {type: worker, depends_on: [aa]}"), "step aa does not exist (line 5)"),
        (String::new(), "a document is needed"),
    ] {
        let problem = save(&server, "application/yaml", &text).await.problem(400, "invalid_request");
        assert!(problem["error"].as_str().unwrap().contains(expected), "{problem}\n  expected: {expected}");
    }
    let large = format!("# {}\n{BUILD}", "x".repeat(3 << 20));
    save(&server, "application/yaml", &large).await.problem(413, "payload_too_large");
    server.get("/api/v1/workflows/wf").send().await.problem(404, "not_found");
}

#[tokio::test]
async fn a_document_of_another_tenant_is_forbidden() {
    let server = Server::start().await;
    let document = json!({"id": "wf", "name": "wf", "org_id": "other", "steps": {"a": {"type": "worker"}}});
    server.post("/api/v1/workflows").json(&document).send().await.problem(403, "forbidden");
    server.get("/api/v1/workflows/wf").send().await.problem(404, "not_found");
    server.post("/api/v1/workflows").header("x-tenant-id", "other").json(&document).send().await.ok(201);
}
