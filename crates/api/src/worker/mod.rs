//! The worker loop: claims jobs by long poll, runs a handler for each under its lease, and reports what came of it.
//!
//! A worker that may have lost a job stops working on it: the handler's future is dropped as soon as a heartbeat is
//! refused, a cancellation is heard of, or the lease has run out by this side's own reckoning.

mod hold;
mod report;

use std::sync::Arc;
use std::time::Duration;

use interlock_model::retry::{Backoff, Seed};
use interlock_model::time::millis;
use interlock_model::{JobId, Topic, WorkerId};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Error, Result};
use crate::jobs::{ClaimRequest, ClaimedJob};

pub use hold::Loss;

/// The most jobs that one claim may ask for.
const CLAIM_JOBS_MAX: usize = 100;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(200), multiplier: 2.0, cap: Duration::from_secs(10) };

#[derive(Debug, Clone)]
pub struct Settings {
    pub worker: WorkerId,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    /// Jobs in hand at once.
    pub jobs_max: usize,
    /// How long a job is ours without a heartbeat; the server's default if absent.
    pub lease: Option<Duration>,
    /// How long one claim waits for work.
    pub wait: Duration,
    /// How long a result is offered to a gateway that cannot be reached.
    pub report_patience: Duration,
}

impl Settings {
    #[must_use]
    pub fn new(worker: WorkerId, topics: Vec<Topic>) -> Self {
        Self {
            worker,
            topics,
            capabilities: Vec::new(),
            jobs_max: 1,
            lease: None,
            wait: Duration::from_secs(20),
            report_patience: Duration::from_mins(1),
        }
    }
}

/// What a handler made of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Completed { output: Value },
    Failed { error: String, retryable: bool },
}

/// What the loop tells whoever watches it.
#[derive(Debug)]
pub enum Notice<'a> {
    Claimed(&'a ClaimedJob),
    Reported {
        job: &'a JobId,
        outcome: &'a Outcome,
    },
    /// The handler was dropped, and nothing is reported.
    Dropped {
        job: &'a JobId,
        loss: &'a Loss,
    },
    /// The result was not taken, and is lost with this.
    Refused {
        job: &'a JobId,
        error: &'a Error,
    },
    /// A claim failed; the next follows after `wait`.
    Waiting {
        error: &'a Error,
        wait: Duration,
    },
}

type Watch = Arc<dyn Fn(Notice<'_>) + Send + Sync>;

/// One worker, as the gateway knows it.
pub struct Worker<H> {
    client: Client,
    settings: Settings,
    handler: Arc<H>,
    watch: Watch,
}

impl<H, F> Worker<H>
where
    H: Fn(ClaimedJob) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    pub fn new(client: Client, settings: Settings, handler: H) -> Self {
        Self { client, settings, handler: Arc::new(handler), watch: Arc::new(|_| {}) }
    }

    /// Tells `watch` of everything that happens.
    #[must_use]
    pub fn watched(self, watch: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Self {
        Self { watch: Arc::new(watch), ..self }
    }

    /// Works until `stop`, then finishes what is in hand. Dropping the future drops the handlers at once.
    ///
    /// Ends with an error only where no later claim could succeed: a wrong key, a name that is not valid.
    pub async fn run(&self, stop: CancellationToken) -> Result<()> {
        let mut in_hand = JoinSet::new();
        let end = self.claim_until(&stop, &mut in_hand).await;
        while in_hand.join_next().await.is_some() {}
        end
    }

    async fn claim_until(&self, stop: &CancellationToken, in_hand: &mut JoinSet<()>) -> Result<()> {
        let mut failures = 0;
        while !stop.is_cancelled() {
            while in_hand.try_join_next().is_some() {}
            let free = self.settings.jobs_max.max(1).saturating_sub(in_hand.len());
            if free == 0 {
                stop.run_until_cancelled(in_hand.join_next()).await;
                continue;
            }
            let asked_at = Instant::now();
            let Some(answer) = stop.run_until_cancelled(self.claim(free)).await else { return Ok(()) };
            let pause = match answer {
                Ok(jobs) => {
                    failures = 0;
                    let too_soon = jobs.is_empty() && asked_at.elapsed() < self.settings.wait / 10;
                    for job in jobs {
                        self.take_in_hand(job, in_hand);
                    }
                    // A gateway that does not wait, because it is going down, must not be asked in a tight loop.
                    too_soon.then(|| jitter(2))
                }
                Err(error) if error.is_passing() => {
                    failures += 1;
                    let wait = error.retry_after().unwrap_or_else(|| jitter(failures));
                    (self.watch)(Notice::Waiting { error: &error, wait });
                    Some(wait)
                }
                Err(error) => return Err(error),
            };
            if let Some(pause) = pause {
                stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            }
        }
        Ok(())
    }

    async fn claim(&self, free: usize) -> Result<Vec<ClaimedJob>> {
        let request = ClaimRequest {
            topics: self.settings.topics.clone(),
            max_jobs: u32::try_from(free.min(CLAIM_JOBS_MAX)).expect("at most a hundred"),
            wait_ms: millis(self.settings.wait),
            lease_ms: self.settings.lease.map(millis),
            capabilities: self.settings.capabilities.clone(),
        };
        Ok(self.client.claim(&self.settings.worker, &request).await?.jobs)
    }

    fn take_in_hand(&self, job: ClaimedJob, in_hand: &mut JoinSet<()>) {
        (self.watch)(Notice::Claimed(&job));
        let (client, handler, watch) = (self.client.clone(), self.handler.clone(), self.watch.clone());
        let patience = self.settings.report_patience;
        in_hand.spawn(async move {
            let (id, fence) = (job.job_id.clone(), job.fence);
            let lease = Duration::from_millis(job.lease_ms);
            let outcome = tokio::select! {
                outcome = handler(job) => outcome,
                loss = hold::keep(&client, &id, fence, lease) => {
                    watch(Notice::Dropped { job: &id, loss: &loss });
                    return;
                }
            };
            match report::report(&client, &id, fence, &outcome, patience).await {
                Ok(()) => watch(Notice::Reported { job: &id, outcome: &outcome }),
                Err(error) => watch(Notice::Refused { job: &id, error: &error }),
            }
        });
    }
}

/// How long to wait after so many failures in a row.
fn jitter(failures: u32) -> Duration {
    BACKOFF.full_jitter(failures, Seed::new(rand::random()))
}
