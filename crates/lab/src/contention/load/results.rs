//! Concurrent results for one run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use interlock_api::client::{Client, Result};
use interlock_api::events::RunEvents;
use interlock_api::jobs::{ClaimedJob, CompleteRequest};
use interlock_model::StepKey;
use serde_json::json;
use tokio::sync::oneshot;

use super::burst::{burst, warm_up};
use super::{LoadGenerator, ServerCounters, WORKFLOW, claim, save_workflow};
use crate::contention::trace::{LoadTrace, TraceRecorder};

/// The most jobs that the server grants per claim.
const JOBS_PER_CLAIM: usize = 100;
const CLAIM_WAIT_MS: u64 = 1_000;

/// Longer than any arm lasts.
const LEASE_MS: u64 = 900_000;

impl LoadGenerator {
    /// A contender is a result. It is served when the run has processed it.
    pub(super) async fn results(&self, results: u32) -> Result<LoadTrace> {
        let client = self.client(&self.tenant)?;
        save_workflow(&client, true).await?;
        let items: Vec<u32> = (0..results).collect();
        let run = client.start_run(WORKFLOW, &json!({"items": items}), None).await?.run_id.to_string();
        let jobs = self.claim_all(&client, results as usize).await?;
        warm_up(&client, results).await;
        let recorder = Arc::new(TraceRecorder::default());
        let (connected, is_connected) = oneshot::channel();
        let events = RunEvents::new(client.clone(), run);
        let open = jobs.iter().map(|job| job.step_id.clone()).collect();
        let mut following = tokio::spawn(follow(events, open, recorder.clone(), connected));
        // If the follower has failed, the wait for it below ends at once.
        let _connected = is_connected.await;
        let counters = ServerCounters::read(&client).await?;
        let contend = |contender: u32| {
            let (client, recorder) = (client.clone(), recorder.clone());
            let job = jobs[contender as usize].clone();
            async move {
                let result =
                    CompleteRequest { fence: job.fence, output: json!(contender), usage: BTreeMap::new() };
                let _recorded = recorder.attempt(1, client.complete(&job.job_id, &result)).await;
            }
        };
        let (until, contenders) = (self.until(), u32::try_from(jobs.len()).unwrap_or(0));
        let posted = burst(&recorder, &self.order(contenders), until, contend).await;
        let followed = tokio::time::timeout_at(until.into(), &mut following).await;
        following.abort();
        let mut trace = recorder.trace(contenders, posted.is_cut || followed.is_err());
        counters.add_difference(&client, &mut trace).await?;
        trace.has_unseen_arrivals = true;
        trace.notes.push("no WAVE: the lab does not see the server's redeliveries".to_owned());
        Ok(trace)
    }

    async fn claim_all(&self, client: &Client, count: usize) -> Result<Vec<ClaimedJob>> {
        let (mut jobs, until) = (Vec::new(), self.until());
        while jobs.len() < count && Instant::now() < until {
            let max_jobs = u32::try_from(JOBS_PER_CLAIM.min(count - jobs.len())).unwrap_or(1);
            jobs.extend(claim(client, 0, max_jobs, CLAIM_WAIT_MS, Some(LEASE_MS)).await?);
        }
        Ok(jobs)
    }
}

/// Follows the run's events until it has processed the results of all open steps.
async fn follow(
    mut events: RunEvents,
    mut open: BTreeSet<StepKey>,
    recorder: Arc<TraceRecorder>,
    connected: oneshot::Sender<()>,
) {
    let mut connected = Some(connected);
    while let Ok(Some(event)) = events.next().await {
        if let Some(connected) = connected.take() {
            let _received = connected.send(());
        }
        if event.r#type == "step_completed" && event.step_id.is_some_and(|step| open.remove(&step)) {
            recorder.served();
        }
        if open.is_empty() {
            return;
        }
    }
}
