//! The inventory is whole: what is in it is taken, and what is taken is in it.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::Machines;
use super::super::monitor::Monitor;
use super::acquire;
use crate::server::{BINARY, LIMIT};

/// The loops tick several times a second.
pub(super) const BUSY: [&str; 4] = ["--reconcile-ms", "300", "--snapshot-ms", "300"];

/// The locks of our own loops.
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
    let until = Instant::now() + LIMIT;
    loop {
        let value = machines.redis.command(&["GET", key]).await.unwrap();
        if !value.is_empty() {
            return serde_json::from_str(&value).unwrap_or_else(|error| panic!("{key}: {value}: {error}"));
        }
        assert!(Instant::now() < until, "nobody took {key}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(super) fn tells_its_holder(value: &Value) -> bool {
    value["owner"].is_string() && value["token"].is_string() && value["fence"].as_u64().is_some()
}

/// The keys of `interlock locks inventory`.
fn inventory() -> Vec<String> {
    let told = Command::new(BINARY).args(["locks", "inventory", "--json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let rows = told["items"].as_array().unwrap();
    rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
}

/// Whether `key` is one of the family `pattern`, in which `<…>` stands for a name.
fn is_of(key: &str, pattern: &str) -> bool {
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
fn a_family_of_keys_is_told_by_its_pattern() {
    assert!(is_of("cordum:reconciler:default", "cordum:reconciler:default"));
    assert!(is_of("cordum:lock:{acme}:a/b", "cordum:lock:{<tenant>}:<resource>"));
    assert!(is_of("cordum:wf:run:lock:1", "cordum:wf:run:lock:<run>"));
    assert!(!is_of("cordum:wf:run:lock:", "cordum:wf:run:lock:<run>"));
    assert!(!is_of("cordum:wf:run:admission:acme", "cordum:wf:run:lock:<run>"));
    assert!(!is_of("cordum:lock:acme:a", "cordum:lock:{<tenant>}:<resource>"));
}

#[tokio::test]
async fn every_lock_that_is_taken_is_in_the_inventory_and_get_shows_its_holder() {
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
        assert!(tells_its_holder(&held), "{stage}: {held}");
    }
    caller.complete(&job, &json!({})).await.expect(200);
    caller.ended(&run).await;

    machines.redis.command(&["ECHO", "all-was-seen"]).await.unwrap();
    let writes = monitor.writes_until("all-was-seen").await;
    let patterns = inventory();
    let is_known = |key: &&String| patterns.iter().any(|pattern| is_of(key, pattern));
    let keys: Vec<_> = writes.iter().map(|(key, _)| key).filter(|key| key.starts_with("cordum:")).collect();
    let unknown: Vec<_> = keys.iter().filter(|key| !is_known(key)).collect();
    assert!(unknown.is_empty(), "taken and not in the inventory: {unknown:?}");
    for pattern in &patterns {
        assert!(keys.iter().any(|key| is_of(key, pattern)), "nobody has taken {pattern}");
    }
    // A turn is over before anybody could look: what was written tells.
    let turn = writes.iter().find(|(key, _)| *key == format!("cordum:wf:run:lock:{run}")).unwrap();
    assert!(tells_its_holder(&serde_json::from_str(&turn.1).unwrap()), "{}", turn.1);
}
