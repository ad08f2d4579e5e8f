//! Concurrent starts of one tenant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_api::client::{Client, Result};
use interlock_api::jobs::CompleteRequest;
use serde_json::json;
use tokio::task::JoinSet;

use super::burst::{burst, retry, warm_up};
use super::{LoadGenerator, ServerCounters, WORKFLOW, claim, limit_runs, save_workflow};
use crate::contention::plan::StartLoad;
use crate::contention::trace::{LoadTrace, TraceRecorder};

/// Workers that complete runs to free slots.
const WORKERS: u32 = 2;
const JOBS_PER_CLAIM: u32 = 10;
const CLAIM_WAIT_MS: u64 = 1_000;

/// The pause of a worker after a failed claim.
const PAUSE: Duration = Duration::from_millis(50);

impl LoadGenerator {
    pub(super) async fn starts(&self, load: StartLoad) -> Result<LoadTrace> {
        let client = self.client(&self.tenant)?;
        save_workflow(&client, false).await?;
        limit_runs(&client, &self.tenant, Some(load.runs_max)).await?;
        warm_up(&client, load.starts).await;
        // Clients that do not retry need no free slots, and without workers only starts cost commands.
        let has_workers = load.retry.is_some() && load.runs_max < load.starts;
        let mut workers = JoinSet::new();
        for worker in 0..if has_workers { WORKERS } else { 0 } {
            workers.spawn(complete_runs(client.clone(), worker));
        }
        let counters = ServerCounters::read(&client).await?;
        let recorder = Arc::new(TraceRecorder::default());
        let contend = |contender| {
            let (client, recorder) = (client.clone(), recorder.clone());
            let seed = self.seed.part(u64::from(contender));
            async move {
                let (key, input) = (format!("lab-{}", seed.number()), json!({}));
                let delays = load.retry.iter().flat_map(|policy| policy.schedule(seed));
                let delays = delays.take(load.tries_max.saturating_sub(1) as usize);
                let start = || client.start_run(WORKFLOW, &input, Some(&key));
                if retry(&recorder, delays, start).await.is_some() {
                    recorder.served();
                }
            }
        };
        let mut trace = burst(&recorder, &self.order(load.starts), self.until(), contend).await;
        counters.add_difference(&client, &mut trace).await?;
        workers.shutdown().await;
        if has_workers {
            trace.notes.push("COMMANDS includes workers".to_owned());
        }
        Ok(trace)
    }
}

/// Claims and completes jobs until it is aborted.
async fn complete_runs(client: Client, worker: u32) {
    loop {
        let Ok(jobs) = claim(&client, worker, JOBS_PER_CLAIM, CLAIM_WAIT_MS, None).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        for job in jobs {
            let result = CompleteRequest { fence: job.fence, output: json!({}), usage: BTreeMap::new() };
            // If the result is lost, the job is claimed again after its lease expires.
            let _completed = client.complete(&job.job_id, &result).await;
        }
    }
}
