//! Starts of one tenant, all at once.

use std::sync::Arc;
use std::time::Duration;

use interlock_api::client::{Client, Result};
use interlock_api::jobs::{ClaimRequest, CompleteRequest};
use interlock_model::WorkerId;
use interlock_model::retry::{RetryPolicy, Seed};
use serde_json::json;
use tokio::task::JoinSet;

use super::burst::{burst, warm_up};
use super::{Counters, Stage, WORKFLOW, limit_runs};
use crate::contention::trace::{Recorder, Trace};

/// Workers who end runs, so that slots come free.
const WORKERS: u32 = 2;
const JOBS_AT_ONCE: u32 = 10;
const CLAIM_WAIT_MS: u64 = 1_000;

/// What a worker waits after an answer that it did not want.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Starts {
    pub(super) count: u32,
    pub(super) runs_max: u32,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) tries_max: u32,
}

impl Stage {
    pub(super) async fn starts(&self, work: &Starts) -> Result<Trace> {
        let client = self.client(&self.tenant)?;
        self.save_workflow(&client, false).await?;
        limit_runs(&client, &self.tenant, Some(work.runs_max)).await?;
        warm_up(&client, work.count).await;
        // Nobody who gives up at once needs a slot to come free; and then nothing but starts costs commands.
        let has_workers = work.retry.is_some() && work.runs_max < work.count;
        let mut workers = JoinSet::new();
        for number in 0..if has_workers { WORKERS } else { 0 } {
            let name = format!("lab-{number}").parse().expect("letters make a worker's name");
            workers.spawn(end_runs(client.clone(), name));
        }
        let before = Counters::before(&client).await?;
        let recorder = Arc::new(Recorder::default());
        let journey = |contender| {
            let starter = Starter {
                client: client.clone(),
                recorder: recorder.clone(),
                contender,
                seed: self.seed.part(u64::from(contender)),
                retry: work.retry,
                tries_max: work.tries_max,
            };
            starter.go()
        };
        let mut trace = burst(&recorder, &self.order(work.count), self.until(), journey).await;
        before.add_to(&mut trace, &Counters::after(&client).await?);
        workers.shutdown().await;
        if has_workers {
            trace.notes.push("commands of workers included".to_owned());
        }
        Ok(trace)
    }
}

/// One client that wants one run.
struct Starter {
    client: Client,
    recorder: Arc<Recorder>,
    contender: u32,
    seed: Seed,
    retry: Option<RetryPolicy>,
    tries_max: u32,
}

impl Starter {
    async fn go(self) {
        let key = format!("lab-{}", self.seed.number());
        let mut delays = self.retry.iter().flat_map(|policy| policy.schedule(self.seed));
        for number in 1..=self.tries_max {
            let input = json!({});
            let request = self.client.start_run(WORKFLOW, &input, Some(&key));
            let (answer, result) = self.recorder.attempt(self.contender, number, request).await;
            if result.is_ok() {
                return self.recorder.served();
            }
            match delays.next() {
                Some(delay) if answer.is_passing() && number < self.tries_max => {
                    tokio::time::sleep(delay).await;
                }
                _ => return,
            }
        }
    }
}

/// Takes every job there is and completes it, for as long as it is let.
async fn end_runs(client: Client, name: WorkerId) {
    let topics = vec![WORKFLOW.parse().expect("letters make a topic")];
    let request = ClaimRequest {
        topics,
        max_jobs: JOBS_AT_ONCE,
        wait_ms: CLAIM_WAIT_MS,
        lease_ms: None,
        capabilities: Vec::new(),
    };
    loop {
        let Ok(answer) = client.claim(&name, &request).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        for job in answer.jobs {
            let result = CompleteRequest { fence: job.fence, output: json!({}) };
            // One that was not taken is claimed again when its lease has ended.
            let _reported = client.complete(&job.job_id, &result).await;
        }
    }
}
