//! Workers on NATS: the public Python SDK unchanged, and a scripted worker that misbehaves.

use futures_util::StreamExt as _;
use interlock_cap::wire::{self, BusPacket, ComponentRole, Handshake, JobResult, JobStatus, Payload};
use interlock_poll::until;
use interlock_servers::{Nats, NatsOptions, NatsRelease, Redis, RedisCluster, RedisOptions};
use prost::Message as _;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

use super::{Machines, replica};
use crate::server::{BINARY, Caller, LIMIT, Server, signal};

pub(super) const TOPIC: &str = "job.double";
pub(super) const SCRIPTED: &str = "scripted";
const QUICK: [&str; 4] = ["--worker-silence-ms", "1500", "--redelivery-delay-ms", "5"];

/// A Python process that is killed with its guard.
struct Python(std::process::Child);

impl Python {
    fn worker(nats: &str, redis: &str, name: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/machines/worker.py");
        let mut command = Command::new(interlock_servers::python().unwrap());
        command.args([script, TOPIC, name]).env("NATS_URL", nats).env("REDIS_URL", redis);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn save(caller: &Caller, step: Value) {
    let mut document = json!({"type": "worker", "topic": TOPIC});
    document.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
    caller.workflow("job", json!({"work": document})).await;
}

/// The output of the one step, once the run has succeeded.
fn output(run: &Value) -> Value {
    assert_eq!(run["status"], "succeeded", "{run}");
    run["steps"]["work"]["output"].clone()
}

async fn start_two(release: NatsRelease) -> (Machines, Caller) {
    let mut machines = Machines::start_on(0, release).await;
    for _ in 0..2 {
        machines.replicas.push(replica(&machines.redis.url(), &machines.nats.url(), &QUICK));
    }
    let caller = machines.replicas[0].caller("acme");
    (machines, caller)
}

async fn python_worker_runs_jobs(release: NatsRelease) {
    let (mut machines, caller) = start_two(release).await;
    let _worker = Python::worker(&machines.nats.url(), &machines.redis.url(), "first");
    save(&caller, json!({})).await;
    let run = caller.start("job", None, &json!({"number": 21})).await.expect(200).text("run_id");
    assert_eq!(output(&caller.ended(&run).await), json!({"doubled": 42, "by": "first", "attempt": 1}));

    let retry = json!({"retry": {"max_retries": 1, "initial_backoff_sec": 0}});
    save(&caller, retry).await;
    let flaky = caller.start("job", None, &json!({"number": 4, "fails": true})).await.expect(200);
    let flaky = caller.ended(&flaky.text("run_id")).await;
    assert_eq!(output(&flaky), json!({"doubled": 8, "by": "first", "attempt": 2}));

    // After a restart of NATS the worker and the server connect again.
    for _ in 0..super::restarts::restarts() {
        machines.nats.kill().await.unwrap();
        machines.nats.start_again().await.unwrap();
        let after = caller.start("job", None, &json!({"number": 5})).await.expect(200).text("run_id");
        assert_eq!(output(&caller.ended(&after).await)["doubled"], 10);
    }

    // Deleting the run deletes its inputs and results in Redis.
    let left = async || {
        machines.redis.command(&["EXISTS", &format!("ctx:{run}:work@1"), &format!("res:{run}:work@1")]).await
    };
    assert_eq!(left().await.unwrap(), "2");
    let path = format!("/workflow-runs/{run}");
    caller.try_send(reqwest::Method::DELETE, &path, None, &Value::Null).await.unwrap().expect(204);
    assert_eq!(left().await.unwrap(), "0");
}

#[tokio::test]
async fn a_python_worker_runs_jobs_over_nats_of_debian() {
    python_worker_runs_jobs(NatsRelease::Debian).await;
}

#[tokio::test]
async fn a_python_worker_runs_jobs_over_the_newest_nats() {
    python_worker_runs_jobs(NatsRelease::Newest).await;
}

#[tokio::test]
async fn a_paused_python_workers_job_goes_to_another_and_its_late_result_is_refused() {
    let (machines, caller) = start_two(NatsRelease::Debian).await;
    let first = Python::worker(&machines.nats.url(), &machines.redis.url(), "first");
    save(&caller, json!({})).await;
    let run =
        caller.start("job", None, &json!({"number": 21, "seconds": 1})).await.expect(200).text("run_id");
    let job = format!("/jobs/{run}:work@1");
    until("the first worker has the job", async || caller.get(&job).await.body["state"] == json!("running"))
        .await;
    signal(first.0.id(), "STOP");
    let _second = Python::worker(&machines.nats.url(), &machines.redis.url(), "second");
    let ended = caller.ended(&run).await;
    assert_eq!(output(&ended), json!({"doubled": 42, "by": "second", "attempt": 2}));

    signal(first.0.id(), "CONT");
    until("the first worker has stored its late result", async || {
        machines.redis.command(&["EXISTS", &format!("res:{run}:work@1")]).await.unwrap() == "1"
    })
    .await;
    // Another run's result follows the late one through the same stream.
    let next = caller.start("job", None, &json!({"number": 1})).await.expect(200).text("run_id");
    caller.ended(&next).await;
    assert_eq!(caller.run(&run).await, ended);
    assert_eq!(caller.get(&job).await.expect(200).body["state"], "lost");
    assert_eq!(refused_results(&machines).await, 1, "the late result is refused and counted");
}

/// The refused results of workers on NATS, over all replicas.
async fn refused_results(machines: &Machines) -> u64 {
    let mut refused = 0;
    for replica in &machines.replicas {
        let text = reqwest::get(format!("{}/metrics", replica.base)).await.unwrap().text().await.unwrap();
        let line = text.lines().find(|line| line.starts_with("fence_rejections_total{write=\"bus_result\"}"));
        refused += line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    }
    refused
}

/// Publishes a packet of the scripted worker.
pub(super) async fn publish(client: &async_nats::Client, subject: &'static str, payload: Payload) {
    client.publish(subject, packet(SCRIPTED, payload).into()).await.unwrap();
    client.flush().await.unwrap();
}

/// The bytes of a packet.
pub(super) fn packet(sender: &str, payload: Payload) -> Vec<u8> {
    let packet = BusPacket {
        trace_id: "trace".to_owned(),
        sender_id: sender.to_owned(),
        protocol_version: 1,
        payload: Some(payload),
        ..BusPacket::default()
    };
    packet.encode_to_vec()
}

/// Announces the scripted worker as ready for jobs.
pub(super) async fn announce(client: &async_nats::Client) {
    let handshake = Handshake {
        component_id: SCRIPTED.to_owned(),
        role: ComponentRole::Worker.into(),
        ready_topics: vec![TOPIC.to_owned()],
        ..Handshake::default()
    };
    publish(client, wire::HANDSHAKE, Payload::Handshake(handshake)).await;
}

#[tokio::test]
async fn an_unreadable_result_becomes_a_dead_letter_after_a_hundred_deliveries() {
    let machines = Machines::start_with(2, &["--redelivery-delay-ms", "5"]).await;
    let caller = machines.replicas[0].caller("acme");
    save(&caller, json!({})).await;
    let client = async_nats::connect(machines.nats.url()).await.unwrap();
    let mut jobs = client.subscribe(format!("worker.{SCRIPTED}.jobs")).await.unwrap();
    announce(&client).await;
    let run = caller.start("job", None, &json!({"number": 1})).await.expect(200).text("run_id");
    let pushed = tokio::time::timeout(LIMIT, jobs.next()).await.unwrap().unwrap();
    let Payload::JobRequest(job) = wire::read(&pushed.payload).unwrap().payload else { panic!("no job") };
    // The result points to a key that does not exist.
    let result = JobResult {
        job_id: job.job_id.clone(),
        status: JobStatus::Succeeded.into(),
        worker_id: SCRIPTED.to_owned(),
        result_ptr: format!("redis://res:{}", job.job_id),
        ..JobResult::default()
    };
    publish(&client, wire::RESULT, Payload::JobResult(result)).await;
    let listed = || dead_letters(&machines.replicas[1]);
    until("the result is a dead letter", async || !listed().is_empty()).await;
    let letter = listed().remove(0);
    assert_eq!((&letter["job_id"], &letter["run_id"]), (&json!(job.job_id), &json!(run)));
    assert_eq!((&letter["reason_code"], &letter["attempts"]), (&json!("result_unhandled"), &json!(100)));
}

/// What `interlock dlq list` shows.
pub(super) fn dead_letters(server: &Server) -> Vec<Value> {
    let mut command = Command::new(BINARY);
    command.args(["--gateway", &server.base, "--tenant", "acme", "dlq", "list", "--json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    page["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_redis_cluster_serves_workers_on_http_and_nats() {
    let cluster = RedisCluster::start(3).await.unwrap();
    let blobs = Redis::start(RedisOptions::default()).await.unwrap();
    let nats = Nats::start(NatsOptions::default()).await.unwrap();
    let server = replica(&cluster.url(), &nats.url(), &["--blob-redis", &blobs.url()]);
    let _python = Python::worker(&nats.url(), &blobs.url(), "first");
    for tenant in ["acme", "globex", "initech"] {
        let caller = server.caller(tenant);
        save(&caller, json!({})).await;
        let run = caller.start("job", None, &json!({"number": 3})).await.expect(200).text("run_id");
        assert_eq!(output(&caller.ended(&run).await)["doubled"], 6);
        caller.workflow("over-http", json!({"work": {"type": "worker", "topic": "http"}})).await;
        let run = caller.start("over-http", None, &json!({})).await.expect(200).text("run_id");
        for job in caller.claim("w", "http", 1).await {
            caller.complete(&job, &json!("done")).await.expect(200);
        }
        assert_eq!(output(&caller.ended(&run).await), json!("done"));
    }
}
