//! A start was acknowledged, and its process died before it announced the job.

use futures_util::StreamExt as _;
use interlock_cap::wire::{self, Payload};
use interlock_poll::until;
use interlock_servers::{Nats, NatsOptions};
use serde_json::json;

use super::monitor::Monitor;
use super::nats_workers::{SCRIPTED, TOPIC, announce};
use super::ticks::metric;
use super::{Machines, replica};
use crate::server::LIMIT;

#[tokio::test]
async fn a_job_whose_starter_was_killed_is_found_by_the_poll_and_counted_once() {
    let machines = Machines::start(1).await;
    let other = &machines.replicas[0];
    let caller = other.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": TOPIC}})).await;
    let client = async_nats::connect(machines.nats.url()).await.unwrap();
    let mut pushed = client.subscribe(format!("worker.{SCRIPTED}.jobs")).await.unwrap();
    announce(&client).await;
    let mut next = async || {
        let message = tokio::time::timeout(LIMIT, pushed.next()).await.unwrap().unwrap();
        let Payload::JobRequest(job) = wire::read(&message.payload).unwrap().payload else {
            panic!("no job")
        };
        job.job_id
    };
    let announced = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    assert_eq!(next().await, format!("{announced}:work@1"));
    // The other replica has polled for a worker with free capacity and found nothing.
    looks(&machines, 3).await;

    // No other replica receives the announcements of this one: it has its own NATS.
    let elsewhere = Nats::start(NatsOptions::default()).await.unwrap();
    let doomed = replica(&machines.redis.url(), &elsewhere.url(), &["--roles", "gateway"]);
    let run = doomed.caller("acme").start("job", None, &json!({})).await.expect(200).text("run_id");
    doomed.kill();
    assert_eq!(next().await, format!("{run}:work@1"));
    until("the orphan is counted", async || metric(other, "orphan_replayed_total").await == 1).await;

    // A job that was announced is no orphan.
    let announced = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    assert_eq!(next().await, format!("{announced}:work@1"));
    looks(&machines, 2).await;
    assert_eq!(metric(other, "orphan_replayed_total").await, 1);
    assert_eq!(metric(other, "job_lock_wait_count").await, 3);
}

/// Waits until the server has polled this number of times for jobs of the worker.
async fn looks(machines: &Machines, times: usize) {
    for _ in 0..times {
        Monitor::begin(machines.redis.port()).await.read_until_all(&["jobs_max", SCRIPTED]).await;
    }
}
