//! Query parameters: an unknown one is refused on every route, and every documented one is known.

use serde_json::Value;

use crate::server::Server;

/// A value for every name in a path.
fn filled(path: &str) -> String {
    let mut filled = String::new();
    for (index, part) in path.split(['{', '}']).enumerate() {
        filled.push_str(if index % 2 == 0 { part } else { "00000000-0000-7000-8000-000000000000" });
    }
    filled
}

async fn error(server: &Server, method: &str, path: &str) -> String {
    let method =
        ["GET", "PUT", "POST", "DELETE"].into_iter().find(|known| known.eq_ignore_ascii_case(method));
    let method = method.expect("every method is known");
    let answer = server.request(method, path).send().await;
    if answer.status != 400 {
        return String::new();
    }
    answer.problem(400, "invalid_request")["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_on_every_route_with_its_name() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    let mut routes = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let said = error(&server, method, &format!("{}?surprise=1", filled(path))).await;
            assert!(said.contains("unknown query parameter \"surprise\""), "{method} {path}: {said:?}");
            routes += 1;
        }
    }
    assert!(routes > 60, "{routes}");
}

#[tokio::test]
async fn no_documented_parameter_is_unknown() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters: &[Value] = operation["parameters"].as_array().map_or(&[], Vec::as_slice);
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query") {
                let name = parameter["name"].as_str().unwrap();
                // A value that none of them takes, so that nothing is done.
                let said = error(&server, method, &format!("{}?{name}=%00", filled(path))).await;
                assert!(!said.contains("unknown query parameter"), "{method} {path}: {said}");
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "{checked}");
}

#[tokio::test]
async fn the_error_names_what_was_probably_meant() {
    let server = Server::start().await;
    let run = "/api/v1/workflow-runs/00000000-0000-7000-8000-000000000000";
    let table = [
        (format!("{run}?wait=10"), "unknown query parameter \"wait\""),
        ("/api/v1/jobs?limits=5".to_owned(), "unknown query parameter \"limits\"; did you mean `limit`?"),
        ("/api/v1/workflow-runs?workflow=wf".to_owned(), "did you mean `workflow_id`?"),
        ("/api/v1/jobs?surprise=1".to_owned(), "it takes "),
        ("/healthz?surprise=1".to_owned(), "it takes none"),
    ];
    for (path, expected) in table {
        let said = error(&server, "get", &path).await;
        assert!(said.contains(expected), "{path}: {said}");
    }
    let long = format!("/api/v1/jobs?{}=1", "x".repeat(5_000));
    assert!(error(&server, "get", &long).await.len() < 300);
    assert_eq!(server.get("/api/v1/jobs?").send().await.status, 200, "an empty query has no parameter");
}
