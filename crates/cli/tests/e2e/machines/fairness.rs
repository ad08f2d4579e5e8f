//! One tenant's flood does not keep another's single job waiting.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use interlock_cap::wire::{self, JobRequest, JobResult, JobStatus, Payload};
use serde_json::json;

use super::Machines;
use super::nats_workers::{BY_HAND, TOPIC, introduce, say};
use crate::server::Server;

const FLOOD: usize = 10_000;

/// Jobs of the flood that may start before the single one.
const DISPATCHES_MAX: usize = 10;

/// What a worker takes at once that does not say, of each replica.
const CAPACITY: usize = 4;

struct ByHand<'a> {
    machines: &'a Machines,
    client: async_nats::Client,
    jobs: async_nats::Subscriber,
}

impl ByHand<'_> {
    async fn next(&mut self) -> JobRequest {
        let message = tokio::time::timeout(Duration::from_secs(40), self.jobs.next()).await;
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
            worker_id: BY_HAND.to_owned(),
            result_ptr: format!("redis://{key}"),
            ..JobResult::default()
        };
        say(&self.client, wire::RESULT, Payload::JobResult(result)).await;
    }
}

/// A tenant with as many jobs as one run can have, all of them waiting.
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
    let jobs = client.subscribe(format!("worker.{BY_HAND}.jobs")).await.unwrap();
    let mut worker = ByHand { machines: &machines, client, jobs };
    introduce(&worker.client).await;
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
async fn among_ten_thousand_jobs_of_another_tenant_a_single_one_starts_within_ten_dispatches() {
    a_single_job_starts_within_ten_dispatches(1).await;
}

#[tokio::test]
async fn with_three_replicas_each_with_its_own_line_it_does_too() {
    a_single_job_starts_within_ten_dispatches(3).await;
}

#[tokio::test]
async fn a_worker_on_http_claims_its_tenants_job_whatever_another_tenant_floods() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    flood(&server).await;
    let greedy = server.caller("greedy");
    assert_eq!(greedy.claim("w1", TOPIC, 1).await.len(), 1, "the flood is there");
    let modest = server.caller("modest");
    modest.workflow("job", json!({"work": {"type": "worker", "topic": TOPIC}})).await;
    let run = modest.start("job", None, &json!({})).await.expect(200).text("run_id");
    let claimed = modest.claim("w1", TOPIC, 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0]["run_id"], json!(run));
}
