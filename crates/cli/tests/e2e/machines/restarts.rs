//! Redis and NATS restarted under load, and a failover to a replica that lags.

use interlock_poll::until;
use interlock_servers::{Nats, NatsOptions, NatsRelease, Sentinel};
use serde_json::json;

use super::{Machines, replica};
use crate::load::Load;

pub(super) fn restarts() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the soak runs the same test for longer")]
    let asked = std::env::var("INTERLOCK_SOAK_RESTARTS");
    asked.ok().and_then(|restarts| restarts.parse().ok()).unwrap_or(2)
}

#[tokio::test]
async fn redis_restarted_under_load_loses_nothing() {
    let mut machines = Machines::start(3).await;
    let load = Load::begin(machines.callers("acme")).await;
    for _ in 0..restarts() {
        load.continues_by(30).await;
        let refused_before = load.refused(503);
        machines.redis.kill().await.unwrap();
        until("a start is refused", async || load.refused(503) > refused_before).await;
        machines.redis.start_again().await.unwrap();
        load.continues_by(10).await;
    }
    load.check().await;
}

async fn nats_restarted(release: NatsRelease) {
    let mut machines = Machines::start_on(2, release).await;
    let load = Load::begin(machines.callers("acme")).await;
    for _ in 0..restarts() {
        load.continues_by(20).await;
        machines.nats.kill().await.unwrap();
        // Starts and HTTP workers do not need NATS.
        load.continues_by(20).await;
        let status = machines.callers("acme")[0].get("/status").await.expect(200);
        assert_eq!(status.body["bus"], json!({"kind": "nats", "connected": false}));
        machines.nats.start_again().await.unwrap();
        load.continues_by(20).await;
    }
    assert_eq!(load.refused(503), 0, "no start is refused while NATS is unreachable");
    load.check().await;
    let caller = &machines.callers("acme")[0];
    let is_connected =
        async || caller.get("/status").await.expect(200).body["bus"]["connected"] == json!(true);
    until("the replica connects to NATS again", is_connected).await;
}

#[tokio::test]
async fn starts_continue_while_nats_of_debian_restarts() {
    nats_restarted(NatsRelease::Debian).await;
}

#[tokio::test]
async fn starts_continue_while_the_newest_nats_restarts() {
    nats_restarted(NatsRelease::Newest).await;
}

#[tokio::test]
async fn fences_grow_over_a_failover_to_a_replica_that_lags() {
    let mut sentinel = Sentinel::start().await.unwrap();
    let nats = Nats::start(NatsOptions::default()).await.unwrap();
    let server = replica(&sentinel.url(), &nats.url(), &[]);
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(1_000).await;
    let mut fences = Vec::new();
    for number in 0..20 {
        if number == 10 {
            // The Redis replica sees no fence that is granted after this.
            sentinel.cut_replication().await.unwrap();
        }
        caller.start("job", None, &json!({})).await.expect(200);
        let job = caller.claim("w", "work", 1).await.remove(0);
        fences.push(job["fence"].as_u64().unwrap());
    }
    sentinel.primary().kill().await.unwrap();
    sentinel.wait_for_failover().await.unwrap();
    until("the server finds the promoted replica", async || {
        let answer = caller.start("job", None, &json!({})).await;
        assert!(matches!(answer.status.as_u16(), 200 | 503), "{answer:?}");
        answer.status == 200
    })
    .await;
    let after = caller.claim("w", "work", 1).await.remove(0)["fence"].as_u64().unwrap();
    assert!(fences.is_sorted() && fences.iter().all(|before| *before < after), "{fences:?}, then {after}");
}

#[tokio::test]
async fn a_start_that_waits_is_answered_when_its_run_ends_on_another_replica() {
    let mut machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    callers[0].workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    // The second time NATS is down: the watcher's own poll finds the end.
    for is_nats_up in [true, false] {
        if !is_nats_up {
            machines.nats.kill().await.unwrap();
        }
        let run = callers[0].start("job", None, &json!({})).await.expect(200).body["run_id"].clone();
        let path = format!("/workflow-runs/{}?wait_ms=60000", run.as_str().unwrap());
        let waiting = {
            let caller = callers[0].clone();
            tokio::spawn(async move { caller.get(&path).await })
        };
        let jobs = callers[1].claim("w", "work", 1).await;
        callers[1].complete(&jobs[0], &json!({"n": 1})).await.expect(200);
        let answer = waiting.await.unwrap().expect(200);
        assert_eq!((&answer.body["id"], &answer.body["status"]), (&run, &json!("succeeded")));
    }
}
