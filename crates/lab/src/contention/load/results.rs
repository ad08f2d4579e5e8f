//! Results for one run, all at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use interlock_api::client::{Client, Result};
use interlock_api::events::RunEvents;
use interlock_api::jobs::{ClaimRequest, ClaimedJob, CompleteRequest};
use interlock_model::{StepKey, WorkerId};
use serde_json::json;
use tokio::sync::oneshot;

use super::burst::{burst, warm_up};
use super::{Counters, Stage, WORKFLOW};
use crate::contention::trace::{Recorder, Trace};

/// The most that one claim may take.
const JOBS_AT_ONCE: usize = 100;
const CLAIM_WAIT_MS: u64 = 1_000;

/// Longer than any arm lasts.
const LEASE_MS: u64 = 900_000;

impl Stage {
    /// A contender is a result. It is served when the run has taken it into account.
    pub(super) async fn results(&self, results: u32) -> Result<Trace> {
        let client = self.client(&self.tenant)?;
        self.save_workflow(&client, true).await?;
        let items: Vec<u32> = (0..results).collect();
        let run = client.start_run(WORKFLOW, &json!({"items": items}), None).await?.run_id.to_string();
        let jobs = Arc::new(self.claim_all(&client, results as usize).await?);
        warm_up(&client, results).await;
        let recorder = Arc::new(Recorder::default());
        let (heard, listening) = oneshot::channel();
        let follower = Follower {
            events: RunEvents::new(client.clone(), run, 0),
            open: jobs.iter().map(|job| job.step_id.clone()).collect(),
            recorder: recorder.clone(),
        };
        let mut following = tokio::spawn(follower.follow(heard));
        // A follower that has ended says so when it is waited for.
        let _listens = listening.await;
        let before = Counters::before(&client).await?;
        let journey = |contender: u32| report(client.clone(), recorder.clone(), jobs.clone(), contender);
        let until = self.until();
        let posted =
            burst(&recorder, &self.order(u32::try_from(jobs.len()).unwrap_or(0)), until, journey).await;
        let end = tokio::time::timeout_at(until.into(), &mut following).await;
        following.abort();
        let mut trace = recorder.trace(posted.contenders, posted.is_cut || end.is_err());
        before.add_to(&mut trace, &Counters::after(&client).await?);
        // When a result is put off, the server delivers it again.
        trace.has_unseen_arrivals = true;
        trace.notes.push("what the server delivers again is not seen: no WAVE".to_owned());
        Ok(trace)
    }

    async fn claim_all(&self, client: &Client, count: usize) -> Result<Vec<ClaimedJob>> {
        let worker: WorkerId = "lab-0".parse().expect("letters make a worker's name");
        let (mut jobs, until) = (Vec::new(), self.until());
        while jobs.len() < count && std::time::Instant::now() < until {
            let max_jobs = u32::try_from(JOBS_AT_ONCE.min(count - jobs.len())).unwrap_or(1);
            let request = ClaimRequest {
                topics: vec![WORKFLOW.parse().expect("letters make a topic")],
                max_jobs,
                wait_ms: CLAIM_WAIT_MS,
                lease_ms: Some(LEASE_MS),
                capabilities: Vec::new(),
            };
            jobs.extend(client.claim(&worker, &request).await?.jobs);
        }
        Ok(jobs)
    }
}

async fn report(client: Client, recorder: Arc<Recorder>, jobs: Arc<Vec<ClaimedJob>>, contender: u32) {
    let Some(job) = jobs.get(contender as usize) else { return };
    let result = CompleteRequest { fence: job.fence, output: json!(contender) };
    let _written_down = recorder.attempt(contender, 1, client.complete(&job.job_id, &result)).await;
}

/// Watches the run, and notes when it has taken a result into account.
struct Follower {
    events: RunEvents,
    open: BTreeSet<StepKey>,
    recorder: Arc<Recorder>,
}

impl Follower {
    async fn follow(mut self, heard: oneshot::Sender<()>) {
        let mut heard = Some(heard);
        while let Ok(Some(event)) = self.events.next().await {
            if let Some(heard) = heard.take() {
                let _waits = heard.send(());
            }
            let is_taken = event.r#type == "step_completed";
            if let Some(step) = event.step_id.filter(|step| is_taken && self.open.remove(step)) {
                drop(step);
                self.recorder.served();
            }
            if self.open.is_empty() {
                return;
            }
        }
    }
}
