//! One tenant's flood of jobs does not delay another tenant's single job.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use interlock_cap::wire::{self, JobRequest, JobResult, JobStatus, Payload};
use serde_json::json;

use super::Machines;
use super::nats_workers::{SCRIPTED, TOPIC, announce, publish};
use crate::server::{LIMIT, Server};

const FLOOD: usize = 10_000;

/// How many jobs of the flood may start before the single one.
const DISPATCHES_MAX: usize = 10;

/// How many jobs each replica gives to a worker that declares no capacity.
const CAPACITY: usize = 4;

struct ScriptedWorker<'a> {
    machines: &'a Machines,
    client: async_nats::Client,
    jobs: async_nats::Subscriber,
}

impl ScriptedWorker<'_> {
    async fn next(&mut self) -> JobRequest {
        let message = tokio::time::timeout(LIMIT, self.jobs.next()).await;
        let message = message.expect("a job is pushed").unwrap();
        let Payload::JobRequest(job) = wire::read(&message.payload).unwrap().payload else {
            panic!("not a job")
        };
        job
    }

    async fn succeed(&self, job: &JobRequest) {
        let key = format!("res:{}", job.job_id);
        self.machines.redis.command(&["SET", &key, "1"]).await.unwrap();
        let result = JobResult {
            job_id: job.job_id.clone(),
            status: JobStatus::Succeeded.into(),
            worker_id: SCRIPTED.to_owned(),
            result_ptr: format!("redis://{key}"),
            ..JobResult::default()
        };
        publish(&self.client, wire::RESULT, Payload::JobResult(result)).await;
    }
}

/// Starts a run with as many waiting jobs as a run can have.
async fn flood(server: &Server) {
    let greedy = server.caller("greedy");
    let step = json!({"type": "worker", "topic": TOPIC, "for_each": "input.items", "input": {}});
    greedy.workflow("flood", json!({"work": step})).await;
    let items: Vec<usize> = (0..FLOOD).collect();
    greedy.start("flood", None, &json!({"items": items})).await.expect(200);
}

async fn a_single_job_starts_within_ten_dispatches(replicas: usize) {
    let machines = Machines::start_with(replicas, &["--worker-silence-ms", "120000"]).await;
    let client = async_nats::connect(machines.nats.url()).await.unwrap();
    let jobs = client.subscribe(format!("worker.{SCRIPTED}.jobs")).await.unwrap();
    let mut worker = ScriptedWorker { machines: &machines, client, jobs };
    announce(&worker.client).await;
    flood(&machines.replicas[0]).await;
    let mut held = VecDeque::new();
    while held.len() < CAPACITY * replicas {
        held.push_back(worker.next().await);
    }

    let modest = machines.replicas[replicas - 1].caller("modest");
    modest.workflow("job", json!({"work": {"type": "worker", "topic": TOPIC}})).await;
    let run = modest.start("job", None, &json!({})).await.expect(200).text("run_id");
    let mut dispatches = 0;
    let single = loop {
        let done = held.pop_front().expect("the worker always has jobs");
        worker.succeed(&done).await;
        let job = worker.next().await;
        dispatches += 1;
        if job.tenant_id == "modest" {
            break job;
        }
        assert!(dispatches < DISPATCHES_MAX, "{dispatches} jobs of the flood have started before it");
        held.push_back(job);
    };
    assert_eq!(single.job_id, format!("{run}:work@1"));
    worker.succeed(&single).await;
    assert_eq!(modest.ended(&run).await["status"], "succeeded");
}

#[tokio::test]
async fn a_single_job_starts_within_ten_dispatches_of_another_tenants_flood() {
    a_single_job_starts_within_ten_dispatches(1).await;
}

#[tokio::test]
async fn a_single_job_starts_within_ten_dispatches_of_a_flood_over_three_replicas() {
    a_single_job_starts_within_ten_dispatches(3).await;
}

#[tokio::test]
async fn a_worker_on_http_claims_its_tenants_job_during_another_tenants_flood() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    flood(&server).await;
    let greedy = server.caller("greedy");
    assert_eq!(greedy.claim("w1", TOPIC, 1).await.len(), 1, "the flood has begun");
    let modest = server.caller("modest");
    modest.workflow("job", json!({"work": {"type": "worker", "topic": TOPIC}})).await;
    let run = modest.start("job", None, &json!({})).await.expect(200).text("run_id");
    let claimed = modest.claim("w1", TOPIC, 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0]["run_id"], json!(run));
}
