//! One budget over all replicas.

use interlock_poll::until;
use serde_json::json;

use super::Machines;
use crate::budgets::{is_exactly_full, prepare, storm};

#[tokio::test]
async fn of_five_hundred_reservations_over_three_replicas_exactly_as_many_are_granted_as_the_budget_allows() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    prepare(&callers[0]).await;
    let answers = storm(&callers).await;
    is_exactly_full(&callers[1], &answers).await;
    // Another replica than the one that granted it settles a permit.
    let granted = answers.iter().position(|answer| answer.status == 200).unwrap();
    let settle = json!({"permit": answers[granted].body["permit"], "amount": "0.5"});
    let other = &callers[(granted + 1) % callers.len()];
    let settled = other.post("/budgets/llm/settle", settle).await.expect(200);
    assert_eq!((settled.text("overdraft"), settled.text("remaining")), ("0.49".into(), "0".into()));
}

#[tokio::test]
async fn a_permit_expires_though_the_replica_that_granted_it_is_killed() {
    let mut machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    prepare(&callers[0]).await;
    let body = json!({"amount": "1", "ttl_ms": 1_500, "request_id": "r1"});
    let permit = callers[0].post("/budgets/llm/reserve", body).await.expect(200).text("permit");
    machines.replicas.remove(0).kill();
    until("the other replica has ended the permit", async || {
        callers[1].get("/budgets/llm").await.expect(200).body["usage"]["unsettled"] == "1"
    })
    .await;
    let late = json!({"permit": permit, "amount": "0.25"});
    callers[1].post("/budgets/llm/settle", late).await.expect(200);
    let usage = callers[1].get("/budgets/llm").await.expect(200).body["usage"].clone();
    assert_eq!((&usage["spent"], &usage["unsettled"]), (&json!("0.25"), &json!("0")));
}
