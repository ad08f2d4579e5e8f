//! Named limits from outside: what becomes of starts, and whether all explanations agree.
//!
//! The rules are functions over a server, so that they can be checked on every backend.

mod commands;
pub(super) mod keyed;
pub(super) mod policies;

use reqwest::Method;
use serde_json::{Value, json};

use super::server::{Answer, Caller, LIMIT, Server};

/// A tenant with one workflow of one step.
async fn tenant(server: &Server, name: &str) -> Caller {
    let caller = server.caller(name);
    let work = json!({"type": "worker", "topic": "work", "input": {"key": "${input.key}"}});
    caller.workflow("job", json!({"work": work})).await;
    caller
}

async fn put(caller: &Caller, name: &str, document: Value) -> Value {
    let path = format!("/limits/{name}");
    let answer = caller.try_send(Method::PUT, &path, None, &document).await.expect("the server answers");
    answer.expect(200).body
}

async fn start(caller: &Caller, key: &str) -> Answer {
    caller.start("job", Some(key), &json!({"key": "a"})).await
}

/// Ends the run whose job comes next, and returns it.
async fn end_one(caller: &Caller) -> String {
    let job = caller.claim("w", "work", 1).await.remove(0);
    caller.complete(&job, &json!({})).await.expect(200);
    let run = job["run_id"].as_str().unwrap().to_owned();
    caller.ended(&run).await;
    run
}

/// Repeats a start: the answer is 200 with the same run, whatever has become of it.
async fn replayed(caller: &Caller, key: &str, run: &str, status: &str) {
    let again = start(caller, key).await.expect(200);
    assert_eq!(again.body, json!({"run_id": run, "status": status, "replayed": true}));
    assert_eq!(again.headers["idempotent-replayed"], "true");
}

/// A sentence without who holds the slot: an answer to a start is made without looking for that.
fn without_holder(sentence: &str) -> String {
    match sentence.split_once(" Held by run ") {
        None => sentence.to_owned(),
        Some((before, rest)) => format!("{before}{}", rest.split_once('.').expect("it ends").1),
    }
}

/// `why` says of the run what its start was answered.
async fn why_says_the_same(caller: &Caller, run: &str, answered: &Value) {
    let why = caller.get(&format!("/why?run_id={run}")).await.expect(200).body;
    let cause = &why["causes"][0];
    assert_eq!(cause["code"], answered["blocked_by"]["reason"], "{why}");
    let said = cause["detail"].as_str().unwrap();
    assert_eq!(without_holder(said), answered["detail"].as_str().unwrap());
    let shown = caller.run(run).await;
    assert_eq!(shown["waiting_for"]["detail"], answered["detail"]);
}

/// `explain` says of a start what it is answered.
async fn explain_says_the_same(caller: &Caller, outcome: &str, problem: &Answer) {
    let explained = caller.post("/limits/explain", json!({"workflow": "job", "input": {"key": "a"}})).await;
    let explained = explained.expect(200);
    assert_eq!(explained.text("outcome"), outcome);
    assert_eq!(explained.text("detail"), problem.text("detail"));
}
