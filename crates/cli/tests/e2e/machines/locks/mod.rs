//! Locks over many replicas.

mod contenders;
mod histories;
mod inventory;
mod runbook;

use serde_json::{Value, json};

use crate::server::{Answer, Caller};

/// Requests `resource` and waits for up to `wait_ms`.
async fn acquire(caller: &Caller, resource: &str, owner: &str, wait_ms: u64) -> Answer {
    let request = json!({
        "resource": resource, "owner": owner, "mode": "exclusive", "ttl_ms": 30_000, "wait_ms": wait_ms,
        "request_id": format!("request-of-{owner}"),
    });
    caller.post("/locks/acquire", request).await
}

async fn release(caller: &Caller, resource: &str, token: &str) -> Answer {
    caller.post("/locks/release", json!({"resource": resource, "token": token})).await
}

/// The events of a lock, the oldest first.
async fn history(caller: &Caller, resource: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/locks/history?resource={resource}&limit=500{cursor}");
        let page = caller.get(&path).await.expect(200).body;
        events.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    events.reverse();
    events
}

/// The owners of the leases, in order. Panics if two leases overlap or a fence does not grow.
fn owners_in_order(events: &[Value]) -> Vec<String> {
    let mut owners = Vec::new();
    let mut held: Option<&Value> = None;
    let mut fence = 0;
    for event in events {
        if event["event"] == "granted" {
            assert_eq!(held, None, "granted while held: {event}");
            assert!(event["fence"].as_u64().unwrap() > fence, "a fence did not grow: {event}");
            fence = event["fence"].as_u64().unwrap();
            held = Some(&event["token"]);
            owners.push(event["owner"].as_str().unwrap().to_owned());
        } else {
            assert_eq!(held, Some(&event["token"]), "ended while not held: {event}");
            held = None;
        }
    }
    assert_eq!(held, None, "every lease is released");
    owners
}
