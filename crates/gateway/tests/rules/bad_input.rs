//! Bad input is refused with the documented problem, never with an internal error.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::server::{Server, one_step};

async fn save(server: &Server, document: &Value) -> Answer {
    server.post("/api/v1/workflows").json(document).send().await
}

fn with_condition(condition: &str) -> Value {
    json!({"id": "wf", "name": "wf", "steps": {"a": {"type": "worker", "topic": "t", "condition": condition}}})
}

/// The error of a refused document.
async fn refused(document: &Value) -> String {
    let server = Server::start().await;
    let problem = save(&server, document).await.problem(400, "invalid_request");
    server.get("/api/v1/workflows/wf").send().await.problem(404, "not_found");
    problem["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn broken_json_is_refused_with_its_place() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    for path in ["/api/v1/workflows", "/api/v1/workflows/wf/runs", "/api/v1/keys"] {
        for body in ["{", "{\"a\":}", "nope", "{} {}", "\u{0}", "[1,]"] {
            let problem = server.post(path).text(body).send().await.problem(400, "invalid_request");
            assert!(problem["error"].as_str().unwrap().contains("not valid JSON"), "{problem}");
            assert!(problem["error"].as_str().unwrap().contains("line 1"), "{problem}");
        }
    }
}

#[tokio::test]
async fn wrong_types_are_refused() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    for body in [json!([]), json!("text"), json!(1), json!(null), json!(true)] {
        server.post("/api/v1/workflows/wf/runs").json(&body).send().await.problem(400, "invalid_request");
        save(&server, &body).await.problem(400, "invalid_request");
    }
    let steps = json!({"name": "x", "steps": [{"type": "worker"}]});
    save(&server, &steps).await.problem(400, "invalid_request");
    let timeout =
        json!({"name": "x", "timeout_sec": "soon", "steps": {"a": {"type": "worker", "topic": "t"}}});
    let problem = save(&server, &timeout).await.problem(400, "invalid_request");
    assert!(problem["error"].as_str().unwrap().contains("soon"), "{problem}");
}

/// The error of a request that is refused for its body.
async fn error_of(request: Request) -> String {
    let problem = request.send().await.problem(400, "invalid_request");
    problem["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_array_is_not_accepted_as_an_object() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({})).await;
    let rerun = format!("workflow-runs/{run}/rerun");
    let cancel = format!("workflow-runs/{run}/cancel");
    let table = [
        ("locks/acquire", json!(["arr", "own", "exclusive", 1_000])),
        ("locks/release", json!(["arr", "token"])),
        ("workflows", json!([null, "name", null, null, null, {}])),
        ("keys", json!(["name", "admin"])),
        ("workers/w/claim", json!([["t"]])),
        (&rerun, json!([null])),
        (&cancel, json!([])),
        ("workflows/wf/runs", json!([])),
    ];
    for (path, body) in table {
        let error = error_of(server.post(&format!("/api/v1/{path}")).json(&body)).await;
        assert!(error.ends_with("must be a JSON object"), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_nested_array_is_not_accepted_as_an_object() {
    let server = Server::start().await;
    for data in [json!([[5]]), json!({"limits": [5]})] {
        let body = json!({"scope": "org", "data": data});
        let error = error_of(server.put("/api/v1/config").json(&body)).await;
        assert!(error.contains("invalid type: sequence"), "{error}");
    }
    let steps = [json!(["worker", "t"]), json!({"type": "worker", "topic": "t", "retry": [3]})];
    for step in steps {
        let error = refused(&json!({"id": "wf", "name": "wf", "steps": {"a": step}})).await;
        assert!(error.contains("invalid type: sequence"), "{error}");
    }
}

#[tokio::test]
async fn valid_json_of_another_type_is_not_reported_as_broken_json() {
    let server = Server::start().await;
    let expected = ["expected one of exclusive, shared", "line 1"];
    for mode in ["1", "{}", "null", "[]", "true", "{\"exclusive\":null}"] {
        let body = format!("{{\"resource\":\"r\",\"owner\":\"o\",\"ttl_ms\":1000,\"mode\":{mode}}}");
        let error = error_of(server.post("/api/v1/locks/acquire").text(&body)).await;
        assert!(error.starts_with("invalid body: "), "{mode}: {error}");
        assert!(expected.iter().all(|words| error.contains(words)), "{mode}: {error}");
    }
    for ttl in ["1e400", "99999999999999999999999", "\"soon\"", "null"] {
        let body = format!("{{\"resource\":\"r\",\"owner\":\"o\",\"ttl_ms\":{ttl}}}");
        let error = error_of(server.post("/api/v1/locks/acquire").text(&body)).await;
        assert!(error.starts_with("invalid body: "), "{ttl}: {error}");
    }
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_name() {
    let mut document = one_step("wf");
    document["stepz"] = json!({});
    assert!(refused(&document).await.contains("stepz"));
    let mut document = one_step("wf");
    document["steps"]["build"]["tpic"] = json!("t");
    assert!(refused(&document).await.contains("tpic"));
}

#[tokio::test]
async fn a_body_of_three_mebibytes_is_refused_with_an_answer() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let body = format!("{{\"n\":\"{}\"}}", "x".repeat(3 * 1024 * 1024));
    let answer = server.post("/api/v1/workflows/wf/runs").text(&body).send().await;
    answer.problem(413, "payload_too_large");
    assert!(answer.header("ratelimit").is_some());
    server.post("/api/v1/workflows").text(&body).send().await.problem(413, "payload_too_large");
    let largest = format!("{{\"n\":\"{}\"}}", "x".repeat(2 * 1024 * 1024 - 8));
    assert_eq!(largest.len(), 2 * 1024 * 1024);
    server.post("/api/v1/workflows/wf/runs").text(&largest).send().await.ok(200);
}

#[tokio::test]
async fn a_too_large_body_is_refused_before_it_is_sent() {
    let server = Server::start().await;
    let request = server
        .post("/api/v1/workflows")
        .header("expect", "100-continue")
        .header("content-type", "application/json");
    let written = String::from_utf8(request.written()).unwrap();
    let written = written.replace("content-length: 0", "content-length: 3000000");
    let answer = crate::syntax::exchange(&server, written.as_bytes()).await;
    answer.problem(413, "payload_too_large");
}

#[tokio::test]
async fn ten_thousand_levels_of_nesting_are_refused() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    for levels in [64, 65, 129, 10_000, 500_000] {
        // The object around it is a level.
        let body = format!("{{\"n\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        for path in ["/api/v1/workflows/wf/runs", "/api/v1/workflows"] {
            let problem = server.post(path).text(&body).send().await.problem(400, "invalid_request");
            assert!(problem["error"].as_str().unwrap().contains("64 levels"), "{problem}");
        }
    }
    let deepest = format!("{{\"n\":{}{}}}", "[".repeat(63), "]".repeat(63));
    server.post("/api/v1/workflows/wf/runs").text(&deepest).send().await.ok(200);
}

#[tokio::test]
async fn a_body_that_readers_could_understand_differently_is_refused() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for (body, reason) in [
        (r#"{"a":1,"b":{"x":1,"x":2}}"#.to_owned(), "given twice"),
        (r#"{"a":1,"\u0061":2}"#.to_owned(), "given twice"),
        (r#"{"n":{"$serde_json::private::Number":"1e9999"}}"#.to_owned(), "reserved"),
        (format!(r#"{{"n":{{"$serde_json::private::RawValue":"{nested}"}}}}"#), "reserved"),
        (format!(r#"{{"n":{{"\u0024serde_json::private::RawValue":"{nested}"}}}}"#), "reserved"),
    ] {
        let answer = server.post("/api/v1/workflows/wf/runs").text(&body).send().await;
        let problem = answer.problem(400, "invalid_request");
        assert!(problem["error"].as_str().unwrap().contains(reason), "{body}: {problem}");
    }
}

#[tokio::test]
async fn an_empty_filter_is_refused_and_not_ignored() {
    let server = Server::start().await;
    for path in ["workflow-runs?status=", "jobs?state=", "workflow-runs?workflow_id="] {
        let problem = server.get(&format!("/api/v1/{path}")).send().await.problem(400, "invalid_request");
        let name = path.split(['?', '=']).nth(1).unwrap();
        assert!(problem["error"].as_str().unwrap().contains(name), "{problem}");
    }
}

#[tokio::test]
async fn a_cycle_in_the_graph_is_refused() {
    let step = |after: &str| json!({"type": "worker", "topic": "t", "depends_on": [after]});
    let document =
        json!({"id": "wf", "name": "wf", "steps": {"a": step("b"), "b": step("c"), "c": step("a")}});
    assert!(refused(&document).await.contains("cycle") || refused(&document).await.contains("circle"));
}

#[tokio::test]
async fn a_dangling_dependency_is_refused_by_name() {
    let document = json!({"id": "wf", "name": "wf",
        "steps": {"a": {"type": "worker", "topic": "t", "depends_on": ["ghost"]}}});
    assert!(refused(&document).await.contains("ghost"));
}

#[tokio::test]
async fn an_unknown_step_type_is_refused_by_name() {
    let document = json!({"id": "wf", "name": "wf", "steps": {"a": {"type": "teleport"}}});
    assert!(refused(&document).await.contains("teleport"));
}

#[tokio::test]
async fn an_expression_that_does_not_compile_is_refused_with_its_place() {
    for expression in ["input.x ==", "1 +* 2", "unknown.name", "input.x ==== 1", "'open"] {
        let error = refused(&with_condition(expression)).await;
        assert!(error.contains("steps.a.condition"), "{error}");
    }
}

#[tokio::test]
async fn sixty_four_kibibytes_of_additions_and_of_parentheses_are_refused() {
    let additions = "1+".repeat(32 * 1024) + "1";
    let parentheses = "(".repeat(64 * 1024);
    for expression in [additions, parentheses] {
        let error = refused(&with_condition(&expression)).await;
        assert!(error.len() < 2_000, "{}", error.len());
        let template = json!({"id": "wf", "name": "wf", "steps": {"a": {"type": "worker", "topic": "t",
            "input": {"x": format!("${{{expression}}}")}}}});
        refused(&template).await;
    }
}

#[tokio::test]
async fn ids_with_odd_characters_are_refused() {
    let server = Server::start().await;
    let too_long = "a".repeat(65);
    for id in ["", " ", "a b", "a/b", "-a", ".a", "é", "a\u{0}", "../a", "a{b}", too_long.as_str()] {
        let mut document = one_step("wf");
        document["id"] = json!(id);
        save(&server, &document).await.problem(400, "invalid_request");
        let document = json!({"id": "wf", "name": "wf", "steps": {id: {"type": "worker", "topic": "t"}}});
        save(&server, &document).await.problem(400, "invalid_request");
    }
    for path in [
        "workflows/a%20b",
        "workflows/%2E%2E",
        "workflows/a%2Fb",
        "workflow-runs/nope",
        "jobs/x",
        "workers/%C3%A9",
    ] {
        server.get(&format!("/api/v1/{path}")).send().await.problem(404, "not_found");
    }
    server.get("/api/v1/workflows/%FF").send().await.problem(400, "invalid_request");
    server.post("/api/v1/workflows/a%20b/runs").send().await.problem(404, "not_found");
}

#[tokio::test]
async fn a_body_in_another_charset_than_utf_8_is_refused() {
    let server = Server::start().await;
    let body = one_step("wf").to_string();
    let save = |content: &str| {
        server.post("/api/v1/workflows").header("content-type", content).raw(body.as_bytes()).send()
    };
    for content in [
        "application/json; charset=latin1",
        "application/json;charset=\"utf-16\"",
        "application/json; a=b; Charset=x",
    ] {
        save(content).await.problem(415, "unsupported_media_type");
    }
    for content in
        ["application/json; charset=utf-8", "application/json;charset=\"UTF-8\"", "application/json; a=b"]
    {
        save(content).await.ok(201);
    }
}

#[tokio::test]
async fn huge_and_negative_numbers_are_refused() {
    let server = Server::start().await;
    for number in ["-1", "1000000001", "1e400", "-0.5", "1.5", "99999999999999999999999999", "\"3\"", "NaN"] {
        let body = format!(
            "{{\"scope\":\"org\",\"scope_id\":\"t\",\"data\":{{\"limits\":{{\"max_concurrent_runs\":{number}}}}}}}"
        );
        server.put("/api/v1/config").text(&body).send().await.problem(400, "invalid_request");
    }
    for (scope, limit, number) in [
        ("org", "max_turn_bytes", 65_535u64),
        ("org", "max_run_bytes", 1_073_741_825),
        ("org", "max_workflows", 0),
        ("org", "max_workflow_versions", 10_000_001),
        ("org", "max_workers", 0),
        ("org", "max_tenants", 5),
        ("system", "max_tenants", 0),
    ] {
        let body = json!({"scope": scope, "data": {"limits": {limit: number}}});
        server.put("/api/v1/config").json(&body).send().await.problem(400, "invalid_request");
    }
    for field in ["timeout_sec", "delay_sec"] {
        for number in ["-1", "1e400", "99999999999999999999"] {
            let body = format!(
                "{{\"name\":\"x\",\"steps\":{{\"a\":{{\"type\":\"delay\",\"delay_sec\":1,\"{field}\":{number}}}}}}}"
            );
            server.post("/api/v1/workflows").text(&body).send().await.problem(400, "invalid_request");
        }
    }
    for limit in ["0", "-1", "501", "1.5", "x", "99999999999999999999"] {
        let path = format!("/api/v1/workflow-runs?limit={limit}");
        server.get(&path).send().await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_huge_number_in_an_input_keeps_its_digits() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let body = "{\"n\":123456789012345678901234567890}";
    let answer = server.post("/api/v1/workflows/wf/runs").text(body).send().await.ok(200);
    let run = answer["run_id"].as_str().unwrap().to_owned();
    let view = server.get(&format!("/api/v1/workflow-runs/{run}")).send().await;
    let text = String::from_utf8(view.body).unwrap();
    assert!(text.contains("\"n\":123456789012345678901234567890"), "{text}");
}
