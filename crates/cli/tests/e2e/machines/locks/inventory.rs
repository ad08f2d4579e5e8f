//! The inventory of locks is complete: every lock in it is acquired, and every acquired lock is in it.

use std::process::Command;

use interlock_poll::until;
use serde_json::{Value, json};

use super::super::Machines;
use super::super::monitor::Monitor;
use super::acquire;
use crate::server::BINARY;

/// The loops tick several times a second.
pub(super) const BUSY: [&str; 4] = ["--reconcile-ms", "300", "--snapshot-ms", "300"];

/// The locks of the server's loops.
pub(super) const STAGES: [&str; 7] = [
    "cordum:reconciler:default",
    "cordum:replayer:pending",
    "cordum:workflow-engine:reconciler:default",
    "cordum:reconciler:slots",
    "cordum:reconciler:timers",
    "cordum:reconciler:retention",
    "cordum:scheduler:snapshot:writer",
];

/// What `redis-cli GET` shows of a lock, once it is held.
pub(super) async fn shown(machines: &Machines, key: &str) -> Value {
    let value = until(&format!("{key} is held"), async || {
        Some(machines.redis.command(&["GET", key]).await.unwrap()).filter(|value| !value.is_empty())
    })
    .await;
    serde_json::from_str(&value).unwrap_or_else(|error| panic!("{key}: {value}: {error}"))
}

pub(super) fn names_its_holder(value: &Value) -> bool {
    value["owner"].is_string() && value["token"].is_string() && value["fence"].as_u64().is_some()
}

/// The keys of `interlock locks inventory`.
fn inventory() -> Vec<String> {
    let output = Command::new(BINARY).args(["locks", "inventory", "--json"]).output().unwrap();
    let inventory: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = inventory["items"].as_array().unwrap();
    rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
}

/// Whether `key` matches `pattern`, in which `<…>` stands for a name.
fn matches_pattern(key: &str, pattern: &str) -> bool {
    let mut rest = key;
    let mut parts = pattern.split('<').map(|part| part.split_once('>').map_or(part, |(_, rest)| rest));
    let Some(first) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for part in parts {
        match rest.char_indices().skip(1).find(|(at, _)| rest[*at..].starts_with(part) && !part.is_empty()) {
            Some((at, _)) => rest = &rest[at + part.len()..],
            None if part.is_empty() && !rest.is_empty() => rest = "",
            None => return false,
        }
    }
    rest.is_empty()
}

#[test]
fn a_key_matches_the_pattern_of_its_family() {
    assert!(matches_pattern("cordum:reconciler:default", "cordum:reconciler:default"));
    assert!(matches_pattern("cordum:lock:{acme}:a/b", "cordum:lock:{<tenant>}:<resource>"));
    assert!(matches_pattern("cordum:wf:run:lock:1", "cordum:wf:run:lock:<run>"));
    assert!(!matches_pattern("cordum:wf:run:lock:", "cordum:wf:run:lock:<run>"));
    assert!(!matches_pattern("cordum:wf:run:admission:acme", "cordum:wf:run:lock:<run>"));
    assert!(!matches_pattern("cordum:lock:acme:a", "cordum:lock:{<tenant>}:<resource>"));
}

#[tokio::test]
async fn every_acquired_lock_is_in_the_inventory_and_names_its_holder_in_redis() {
    let machines = Machines::start(0).await;
    let monitor = Monitor::begin(machines.redis.port()).await;
    let machines = machines.with_replicas(2, &[&BUSY[..], &["--admission-strategy", "lock"]].concat());
    let caller = &machines.callers("acme")[0];
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("worker-1", "work", 1).await.remove(0);
    let lock = acquire(caller, "a/b", "ann", 0).await.expect(200);

    let held = shown(&machines, &format!("cordum:scheduler:job:{}", job["job_id"].as_str().unwrap())).await;
    assert_eq!((&held["owner"], &held["fence"]), (&json!("worker-1"), &job["fence"]));
    let held = shown(&machines, "cordum:lock:{acme}:a/b").await;
    assert_eq!(
        (&held["owner"], &held["token"], &held["fence"]),
        (&json!("ann"), &lock.body["token"], &lock.body["fence"])
    );
    for stage in STAGES {
        let held = shown(&machines, stage).await;
        assert!(names_its_holder(&held), "{stage}: {held}");
    }
    caller.complete(&job, &json!({})).await.expect(200);
    caller.ended(&run).await;

    machines.redis.command(&["ECHO", "all-was-seen"]).await.unwrap();
    let writes = monitor.writes_until("all-was-seen").await;
    let patterns = inventory();
    let is_known = |key: &&String| patterns.iter().any(|pattern| matches_pattern(key, pattern));
    let keys: Vec<_> = writes.iter().map(|(key, _)| key).filter(|key| key.starts_with("cordum:")).collect();
    let unknown: Vec<_> = keys.iter().filter(|key| !is_known(key)).collect();
    assert!(unknown.is_empty(), "acquired and not in the inventory: {unknown:?}");
    for pattern in &patterns {
        assert!(keys.iter().any(|key| matches_pattern(key, pattern)), "{pattern} is never acquired");
    }
    // A turn is too short to look at its lock, so this looks at what was written.
    let turn = writes.iter().find(|(key, _)| *key == format!("cordum:wf:run:lock:{run}")).unwrap();
    assert!(names_its_holder(&serde_json::from_str(&turn.1).unwrap()), "{}", turn.1);
}
