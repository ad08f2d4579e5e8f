//! Many results on one run, from workers on all replicas.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Machines;
use crate::server::{Caller, Server};

const ITEMS: usize = 1_000;
const WORKERS: usize = 48;
/// How often the run may be written for all of them.
const WRITES_MAX: u64 = 100;

/// Claims all jobs of the topic, each under a long lease.
async fn claim_all(caller: &Caller) -> Vec<Value> {
    let mut jobs = Vec::new();
    while jobs.len() < ITEMS {
        let claim = json!({"topics": ["work"], "max_jobs": 100, "wait_ms": 20_000, "lease_ms": 600_000});
        let claimed = caller.post("/workers/w/claim", claim).await.expect(200).body;
        let claimed = claimed["jobs"].as_array().unwrap();
        assert!(!claimed.is_empty(), "only {} of {ITEMS} jobs arrived", jobs.len());
        jobs.extend(claimed.iter().cloned());
    }
    jobs
}

/// Completes the jobs by many workers at once, each on one of the replicas.
async fn complete_all(callers: &[Caller], jobs: Vec<Value>) {
    let jobs = Arc::new(Mutex::new(jobs));
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let (caller, jobs) = (callers[number % callers.len()].clone(), jobs.clone());
        workers.spawn(async move {
            loop {
                let next = jobs.lock().unwrap().pop();
                let Some(job) = next else { return };
                caller.complete(&job, &json!({"number": job["step_id"]})).await.expect(200);
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
}

async fn writes(machines: &Machines, run: &str) -> u64 {
    let version = ["HGET", &format!("wf:run:{{acme}}:{run}"), "version"];
    machines.redis.command(&version).await.unwrap().parse().unwrap()
}

async fn retries(server: &Server) -> u64 {
    let text = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("lock_busy_retry_count ")).unwrap();
    line.parse().unwrap()
}

#[tokio::test]
async fn a_thousand_results_on_one_run_over_three_replicas_need_few_writes_and_no_retry() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    let each = json!({"type": "worker", "topic": "work", "for_each": "input.items"});
    callers[0].workflow("fan", json!({"each": each})).await;
    let items: Vec<usize> = (0..ITEMS).collect();
    let run = callers[0].start("fan", None, &json!({"items": items})).await.expect(200).text("run_id");
    let jobs = claim_all(&callers[0]).await;
    let before = writes(&machines, &run).await;
    complete_all(&callers, jobs).await;
    let ended = callers[1].ended(&run).await;
    assert_eq!(ended["status"], "succeeded");
    assert_eq!(ended["steps"]["each"]["output"].as_array().unwrap().len(), ITEMS, "each result counts once");
    let written = writes(&machines, &run).await - before;
    assert!((1..=WRITES_MAX).contains(&written), "the run was written {written} times");
    for replica in &machines.replicas {
        assert_eq!(retries(replica).await, 0);
    }
}
