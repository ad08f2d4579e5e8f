//! A retry policy that is changed or rolled back is in force on every replica without a restart.

use interlock_poll::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::Machines;
use crate::server::Caller;

async fn lock_busy(caller: &Caller) -> Value {
    caller.get("/status").await.expect(200).body["retry_policies"][1].clone()
}

async fn set(caller: &Caller, policy: &str) {
    let (path, body) = ("/retry-policies/lock_busy", json!({"policy": policy}));
    caller.try_send(Method::PUT, path, None, &body).await.expect("the server answers").expect(200);
}

/// Waits until every replica reports this policy.
async fn in_force_everywhere(callers: &[Caller], policy: &str) {
    for caller in callers {
        let condition = format!("{policy} is in force at {}", caller.base);
        until(&condition, async || lock_busy(caller).await["policy"] == policy).await;
    }
}

#[tokio::test]
async fn a_rollback_restores_the_previous_policy_on_three_replicas() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    // Each replica changes it once.
    for caller in &callers {
        set(caller, "bounded_jitter:500ms:30%").await;
        in_force_everywhere(&callers, "bounded_jitter:500ms:30%").await;
        let restored =
            caller.post("/retry-policies/lock_busy/rollback", json!({"reason": "a try"})).await.expect(200);
        assert_eq!(restored.text("policy"), "fixed:500ms");
        in_force_everywhere(&callers, "fixed:500ms").await;
    }
    for caller in &callers {
        let known = lock_busy(caller).await;
        assert_eq!((&known["version"], &known["reason"]), (&json!(6), &json!("a try")), "{known}");
    }
}

#[tokio::test]
async fn a_rollback_reaches_every_replica_without_nats() {
    let machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    set(&callers[0], "fixed:700ms").await;
    in_force_everywhere(&callers, "fixed:700ms").await;
    machines.nats.pause().unwrap();
    callers[0].post("/retry-policies/lock_busy/rollback", json!({})).await.expect(200);
    in_force_everywhere(&callers, "fixed:500ms").await;
    machines.nats.resume().unwrap();
}

#[tokio::test]
async fn policies_and_a_rollout_survive_the_death_of_every_replica() {
    let mut machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    set(&callers[0], "fixed:700ms").await;
    let wanted = json!({"candidate": "full_jitter:500ms:5s", "share_percent": 50, "duration_ms": 3_600_000});
    let begun = callers[0].post("/rollouts", wanted).await.expect(201).text("id");
    for replica in machines.replicas.drain(..) {
        replica.kill();
    }
    let machines = machines.with_replicas(1, &[]);
    let caller = &machines.callers("acme")[0];
    let status = caller.get("/status").await.expect(200).body;
    assert_eq!(status["rollout"]["id"], json!(begun), "known from the first request on");
    assert_eq!(status["retry_policies"][1]["policy"], "fixed:700ms");
    let shown = machines.redis.command(&["HGET", "sys:contention:{:system}", "text"]).await.unwrap();
    assert!(shown.contains(&begun), "{shown}");
}

/// As after a failover to a Redis that had not received it.
#[tokio::test]
async fn a_policy_that_redis_has_lost_is_in_force_on_no_replica() {
    let machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    set(&callers[0], "fixed:700ms").await;
    in_force_everywhere(&callers, "fixed:700ms").await;
    machines.redis.command(&["DEL", "sys:contention:{:system}"]).await.unwrap();
    in_force_everywhere(&callers, "fixed:500ms").await;
    set(&callers[1], "fixed:900ms").await;
    in_force_everywhere(&callers, "fixed:900ms").await;
}
