//! What the `OpenAPI` document says of requests is what the server does with them.

use interlock_schema::Schema;
use serde_json::{Value, json};

use crate::server::{Server, one_step};

/// A value of the right form for every name in a path.
const NAMES: [(&str, &str); 9] = [
    ("/workflows/{id}/", "/workflows/none/"),
    ("/workflow-runs/{id}/", "/workflow-runs/0192f0c1-0000-7000-8000-000000000001/"),
    ("/runs/{id}/", "/runs/0192f0c1-0000-7000-8000-000000000001/"),
    ("{workflow}", "none"),
    ("{job_id}", "0192f0c1-0000-7000-8000-000000000001:build@1"),
    ("{name}", "none"),
    ("/keys/{id}/", "/keys/0123456789ab/"),
    ("/rollouts/{id}/", "/rollouts/ro-0123456789ab/"),
    ("{scope}", "admission"),
];

/// The paths of all operations whose body may be left out, each with the form of the body.
fn optional_bodies(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let body = &item["post"]["requestBody"];
        if body.is_object() && body["required"] != true {
            let path = NAMES.iter().fold(path.clone(), |path, (name, value)| path.replace(name, value));
            found.push((path, body["content"]["application/json"]["schema"].clone()));
        }
    }
    found
}

#[tokio::test]
async fn an_optional_body_is_an_object_or_nothing_as_documented() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    let bodies = optional_bodies(&document);
    assert!(bodies.len() > 10, "{bodies:?}");
    for (path, schema) in bodies {
        let object = match schema["$ref"].as_str() {
            Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
            None => &schema,
        };
        assert_eq!(object["type"], "object", "{path}: {schema}");
        for text in ["null", "[]", "1", "\"text\""] {
            let refused = server.post(&path).text(text).send().await;
            assert_eq!(refused.status, 400, "{path} with {text}");
            let problem = refused.problem(400, "invalid_request");
            assert!(
                problem["detail"].as_str().unwrap().contains("must be a JSON object"),
                "{path}: {problem}"
            );
        }
        for accepted in [server.post(&path), server.post(&path).json(&json!({}))] {
            let answer = accepted.send().await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_ne!(answer.status, 400, "{path}: {text}");
        }
    }
}

/// The form of a query parameter, as documented.
fn form_of(document: &Value, path: &str, parameter: &str) -> Schema {
    let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
    let found = parameters.iter().find(|found| found["name"] == parameter && found["in"] == "query");
    Schema::compile(&found.unwrap()["schema"]).unwrap()
}

#[tokio::test]
async fn a_cursor_is_accepted_exactly_if_it_has_the_documented_form() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let document = server.get("/openapi.json").send().await.ok(200);
    let runs = "/api/v1/workflow-runs";
    let lists = [
        ("/api/v1/workflows", "/api/v1/workflows".to_owned()),
        ("/api/v1/workflow-runs/{id}/timeline", format!("{runs}/{run}/timeline")),
    ];
    let pairs = (0..=u8::MAX).flat_map(|byte| [format!("{byte:02x}"), format!("{byte:02X}")]);
    let others = ["", "7", "+1", "-1", " 1", "7a7", "999999999999999", "0000000000000000"];
    let cursors: Vec<String> = pairs.chain(others.map(str::to_owned)).collect();
    for (path, list) in lists {
        let form = form_of(&document, path, "cursor");
        for cursor in &cursors {
            let escaped = cursor.replace('+', "%2B").replace(' ', "%20");
            let answer = server.get(&format!("{list}?cursor={escaped}")).send().await;
            let is_documented = form.check(&json!(cursor)).is_ok();
            let expected = if is_documented { 200 } else { 400 };
            assert_eq!(answer.status, expected, "{cursor:?} of {list}");
        }
        let [first, empty] = [list.clone(), format!("{list}?cursor=")];
        assert_eq!(server.get(&first).send().await.ok(200), server.get(&empty).send().await.ok(200));
    }
}

#[tokio::test]
async fn the_last_event_is_taken_from_header_or_query_exactly_as_documented() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
    let path = format!("/api/v1/workflow-runs/{run}/events");
    for (text, status) in
        [("0", 200), ("1", 200), ("999999999999999", 200), ("1000000000000000", 400), ("+1", 400), ("x", 400)]
    {
        let header = server.get(&path).header("last-event-id", text).send().await;
        assert_eq!(header.status, status, "{text} in the header");
        let query = format!("{path}?last_event_id={}", text.replace('+', "%2B"));
        assert_eq!(server.get(&query).send().await.status, status, "{text} in the query");
        // What is wrong is refused even if the other one decides.
        let both = server.get(&query).header("last-event-id", "1").send().await;
        assert_eq!(both.status, status, "{text} in the query, and a header");
    }
    let none = server.get(&format!("{path}?last_event_id=0")).header("last-event-id", "999").send().await;
    let text = String::from_utf8(none.body).unwrap();
    assert!(!text.contains("data: "), "the header has precedence: {text}");
}
