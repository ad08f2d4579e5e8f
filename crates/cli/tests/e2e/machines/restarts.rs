//! Redis and NATS restarted under load, and a failover to a replica that lags.

use std::time::Duration;

use interlock_servers::{Nats, NatsOptions, NatsRelease, Sentinel};
use serde_json::json;

use super::{Machines, replica};
use crate::load::Load;

pub(super) fn restarts() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the soak asks the same test for more")]
    let asked = std::env::var("INTERLOCK_SOAK_RESTARTS");
    asked.ok().and_then(|restarts| restarts.parse().ok()).unwrap_or(2)
}

#[tokio::test]
async fn redis_restarted_under_load_loses_nothing() {
    let mut machines = Machines::start(3).await;
    let load = Load::begin(machines.callers("acme")).await;
    for _ in 0..restarts() {
        load.goes_on_by(30).await;
        let refused_before = load.refused(503);
        machines.redis.kill().await.unwrap();
        // Long enough for starts to be refused in between.
        while load.refused(503) == refused_before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        machines.redis.start_again().await.unwrap();
        let took = load.goes_on_by(10).await;
        assert!(took < Duration::from_secs(5), "it went on only after {took:?}");
    }
    load.check().await;
}

async fn nats_restarted(release: NatsRelease) {
    let mut machines = Machines::start_on(2, release).await;
    let load = Load::begin(machines.callers("acme")).await;
    for _ in 0..restarts() {
        load.goes_on_by(20).await;
        machines.nats.kill().await.unwrap();
        // Starts and HTTP workers do not notice.
        load.goes_on_by(20).await;
        let status = machines.callers("acme")[0].get("/status").await.expect(200);
        assert_eq!(status.body["bus"], json!({"kind": "nats", "connected": false}));
        machines.nats.start_again().await.unwrap();
        load.goes_on_by(20).await;
    }
    assert_eq!(load.refused(503), 0, "no start was refused for want of NATS");
    load.check().await;
    let caller = &machines.callers("acme")[0];
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while caller.get("/status").await.expect(200).body["bus"]["connected"] != json!(true) {
        assert!(std::time::Instant::now() < until, "NATS was not found again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn nats_of_debian_restarted_under_load_is_not_noticed() {
    nats_restarted(NatsRelease::Debian).await;
}

#[tokio::test]
async fn the_newest_nats_restarted_under_load_is_not_noticed() {
    nats_restarted(NatsRelease::Newest).await;
}

#[tokio::test]
async fn fences_never_go_back_over_a_failover_to_a_replica_that_lags() {
    let mut sentinel = Sentinel::start().await.unwrap();
    let nats = Nats::start(NatsOptions::default()).await.unwrap();
    let server = replica(&sentinel.url(), &nats.url(), &[]);
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(1_000).await;
    let mut fences = Vec::new();
    for number in 0..20 {
        if number == 10 {
            // What is given out from here on, the replica never hears of.
            sentinel.cut_replication().await.unwrap();
        }
        caller.start("job", None, &json!({})).await.expect(200);
        let job = caller.claim("w", "work", 1).await.remove(0);
        fences.push(job["fence"].as_u64().unwrap());
    }
    sentinel.primary().kill().await.unwrap();
    sentinel.wait_for_failover().await.unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    let after = loop {
        let answer = caller.start("job", None, &json!({})).await;
        if answer.status == 200 {
            break caller.claim("w", "work", 1).await.remove(0)["fence"].as_u64().unwrap();
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(std::time::Instant::now() < until, "the promoted replica was not found");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(fences.is_sorted() && fences.iter().all(|before| *before < after), "{fences:?}, then {after}");
}
