//! Budgets: exactly the amount is granted, and what was reserved outlives the process.

use futures_util::future::join_all;
use interlock_poll::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::server::{Answer, Caller, Server};

pub(crate) const GRANTED: usize = 137;
pub(crate) const ASKED: usize = 500;

/// A budget that allows exactly [`GRANTED`] reservations.
pub(crate) async fn prepare(caller: &Caller) {
    save(caller, json!({"unit": "usd", "amount": "1.37", "per": "day"})).await;
}

async fn save(caller: &Caller, document: Value) {
    let saved = caller.try_send(Method::PUT, "/budgets/llm", None, &document).await;
    saved.expect("the server answers").expect(200);
}

async fn reserve(caller: &Caller, id: &str, ttl_ms: u64) -> Answer {
    let body = json!({"amount": "0.01", "ttl_ms": ttl_ms, "request_id": id});
    caller.post("/budgets/llm/reserve", body).await
}

/// [`ASKED`] reservations at once, spread over the callers.
pub(crate) async fn storm(callers: &[Caller]) -> Vec<Answer> {
    let ids: Vec<_> = (0..ASKED).map(|number| format!("r{number}")).collect();
    let asked = ids.iter().enumerate();
    join_all(asked.map(|(number, id)| reserve(&callers[number % callers.len()], id, 600_000))).await
}

/// Asserts that the budget is exactly full, and that everyone else heard so.
pub(crate) async fn is_exactly_full(caller: &Caller, answers: &[Answer]) {
    let count = |status: u16| answers.iter().filter(|answer| answer.status.as_u16() == status).count();
    assert_eq!((count(200), count(429)), (GRANTED, ASKED - GRANTED));
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!((refused.text("code"), refused.text("remaining")), ("budget_exhausted".into(), "0".into()));
    assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    let usage = caller.get("/budgets/llm").await.expect(200).body["usage"].clone();
    assert_eq!((&usage["reserved"], &usage["open_permits"]), (&json!("1.37"), &json!(GRANTED)));
}

#[tokio::test]
async fn of_five_hundred_reservations_at_once_exactly_as_many_are_granted_as_the_budget_allows() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    prepare(&caller).await;
    let answers = storm(std::slice::from_ref(&caller)).await;
    is_exactly_full(&caller, &answers).await;
}

#[tokio::test]
async fn what_was_reserved_outlives_a_killed_server_and_expires_unsettled() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    save(&caller, json!({"unit": "usd", "amount": "0.02", "per": "total"})).await;
    let kept = reserve(&caller, "kept", 3_600_000).await.expect(200).text("permit");
    reserve(&caller, "lost", 1_000).await.expect(200);
    server.kill();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    reserve(&caller, "more", 1_000).await.expect(429);
    until("the other permit has expired", async || {
        caller.get("/budgets/llm").await.expect(200).body["usage"]["unsettled"] == "0.01"
    })
    .await;
    let settle = json!({"permit": kept, "amount": "0.004"});
    let settled = caller.post("/budgets/llm/settle", settle).await.expect(200);
    assert_eq!(settled.text("remaining"), "0.006");
}
