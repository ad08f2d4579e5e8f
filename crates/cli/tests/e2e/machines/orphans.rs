//! A start that was acknowledged, and whose process died before anybody heard of its job.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use interlock_cap::wire::{self, Payload};
use interlock_servers::{Nats, NatsOptions};
use serde_json::json;

use super::monitor::Monitor;
use super::nats_workers::{BY_HAND, TOPIC, introduce, until};
use super::ticks::metric;
use super::{Machines, replica};

/// How often the edge looks by itself.
const EDGE_POLL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_job_whose_starter_was_killed_is_dispatched_within_one_poll_and_counted_once() {
    let machines = Machines::start(1).await;
    let other = &machines.replicas[0];
    let caller = other.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": TOPIC}})).await;
    let client = async_nats::connect(machines.nats.url()).await.unwrap();
    let mut pushed = client.subscribe(format!("worker.{BY_HAND}.jobs")).await.unwrap();
    introduce(&client).await;
    let mut next = async || {
        let message = tokio::time::timeout(Duration::from_secs(20), pushed.next()).await.unwrap().unwrap();
        let Payload::JobRequest(job) = wire::read(&message.payload).unwrap().payload else {
            panic!("no job")
        };
        job.job_id
    };
    let told = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    assert_eq!(next().await, format!("{told}:work@1"));
    // The other replica has looked, with a worker that has room, and found nothing.
    looks(&machines, 3).await;

    // What this one says reaches nobody: it has a NATS of its own.
    let elsewhere = Nats::start(NatsOptions::default()).await.unwrap();
    let doomed = replica(&machines.redis.url(), &elsewhere.url(), &["--roles", "gateway"]);
    let run = doomed.caller("acme").start("job", None, &json!({})).await.expect(200).text("run_id");
    let acknowledged = Instant::now();
    doomed.kill();
    assert_eq!(next().await, format!("{run}:work@1"));
    assert!(acknowledged.elapsed() < EDGE_POLL + Duration::from_secs(2), "{:?}", acknowledged.elapsed());
    until("it is counted", async || metric(other, "orphan_replayed_total").await == 1).await;

    // One that somebody spoke of is none.
    let spoken = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    assert_eq!(next().await, format!("{spoken}:work@1"));
    looks(&machines, 2).await;
    assert_eq!(metric(other, "orphan_replayed_total").await, 1);
    assert_eq!(metric(other, "job_lock_wait_count").await, 3);
}

/// Waits until the edge has asked so many times for jobs of the worker.
async fn looks(machines: &Machines, times: usize) {
    for _ in 0..times {
        Monitor::begin(machines.redis.port()).await.read_until(&format!("\"{BY_HAND}\"")).await;
    }
}
