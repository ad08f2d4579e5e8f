//! The worker loop: claims jobs by long poll, runs a handler for each under its lease, and reports its outcome.
//!
//! A worker that may have lost a job stops working on it: the handler's future is dropped as soon as a heartbeat is
//! rejected, the job is cancelled, or the lease has expired by the worker's own clock.

mod job_lease;
mod report;

use std::sync::Arc;
use std::time::Duration;

use interlock_model::retry::{Backoff, Seed};
use interlock_model::time::millis;
use interlock_model::{JobId, Topic, WorkerId};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Result};
use crate::jobs::{ClaimRequest, ClaimedJob};

pub use job_lease::JobLoss;

/// The server's limit on the jobs of one claim.
const CLAIM_JOBS_MAX: usize = 100;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(200), multiplier: 2.0, cap: Duration::from_secs(10) };

#[derive(Debug, Clone)]
pub struct WorkerSettings {
    pub worker: WorkerId,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    /// Jobs that may run at once.
    pub jobs_max: usize,
    /// Lease of a job unless a heartbeat renews it; the server's default if absent.
    pub lease: Option<Duration>,
    /// How long one claim waits for jobs.
    pub wait: Duration,
    /// How long a report is repeated while the gateway is unreachable.
    pub report_patience: Duration,
}

impl WorkerSettings {
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

/// The outcome of a handler.
#[derive(Debug, Clone, PartialEq)]
pub enum HandlerOutcome {
    Completed { output: Value },
    Failed { error: String, retryable: bool },
}

/// An event of the loop.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkerEvent<'a> {
    Claimed {
        job_id: &'a JobId,
        fence: u64,
    },
    Completed {
        job_id: &'a JobId,
        output: &'a Value,
    },
    Failed {
        job_id: &'a JobId,
        error: &'a str,
        retryable: bool,
    },
    /// The handler was dropped, and nothing was reported.
    Dropped {
        job_id: &'a JobId,
        reason: String,
    },
    /// The handler was dropped, and the job was handed to the next worker.
    Released {
        job_id: &'a JobId,
    },
    /// The server rejected the result, which is lost.
    Refused {
        job_id: &'a JobId,
        error: String,
    },
    /// A claim failed; the next follows after the wait.
    Waiting {
        error: String,
        wait_ms: u64,
    },
}

type Observer = Arc<dyn Fn(WorkerEvent<'_>) + Send + Sync>;

/// A worker under one id.
pub struct Worker<H> {
    client: Client,
    settings: WorkerSettings,
    handler: Arc<H>,
    observer: Observer,
    release: CancellationToken,
}

impl<H, F> Worker<H>
where
    H: Fn(ClaimedJob) -> F + Send + Sync + 'static,
    F: Future<Output = HandlerOutcome> + Send + 'static,
{
    pub fn new(client: Client, settings: WorkerSettings, handler: H) -> Self {
        let (handler, observer) = (Arc::new(handler), Arc::new(|_: WorkerEvent<'_>| {}));
        Self { client, settings, handler, observer, release: CancellationToken::new() }
    }

    /// Hands the jobs in progress to other workers when `release` is cancelled: their handlers are dropped.
    pub fn released_on(self, release: CancellationToken) -> Self {
        Self { release, ..self }
    }

    /// Calls `observer` with every event.
    pub fn observed(self, observer: impl Fn(WorkerEvent<'_>) + Send + Sync + 'static) -> Self {
        Self { observer: Arc::new(observer), ..self }
    }

    /// Works until `stop`, then finishes the jobs in progress. Dropping the future drops their handlers at once.
    ///
    /// Ends with an error only if no later claim could succeed, such as with a wrong key.
    pub async fn run(&self, stop: CancellationToken) -> Result<()> {
        let mut running = JoinSet::new();
        let end = self.claim_until(&stop, &mut running).await;
        while running.join_next().await.is_some() {}
        end
    }

    async fn claim_until(&self, stop: &CancellationToken, running: &mut JoinSet<()>) -> Result<()> {
        let mut failures = 0;
        while !stop.is_cancelled() {
            while running.try_join_next().is_some() {}
            let free = self.settings.jobs_max.max(1).saturating_sub(running.len());
            if free == 0 {
                stop.run_until_cancelled(running.join_next()).await;
                continue;
            }
            let asked_at = Instant::now();
            let Some(answer) = stop.run_until_cancelled(self.claim(free)).await else { return Ok(()) };
            let pause = match answer {
                Ok(jobs) => {
                    failures = 0;
                    let too_soon = jobs.is_empty() && asked_at.elapsed() < self.settings.wait / 10;
                    for job in jobs {
                        self.spawn_job(job, running);
                    }
                    // A gateway that shuts down answers at once: it must not be asked in a busy loop.
                    too_soon.then(|| jitter(2))
                }
                Err(error) if error.is_transient() => {
                    failures += 1;
                    let wait = error.retry_after().unwrap_or_else(|| jitter(failures));
                    (self.observer)(WorkerEvent::Waiting { error: error.to_string(), wait_ms: millis(wait) });
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
            max_jobs: u32::try_from(free.min(CLAIM_JOBS_MAX)).expect("at most CLAIM_JOBS_MAX"),
            wait_ms: millis(self.settings.wait),
            lease_ms: self.settings.lease.map(millis),
            capabilities: self.settings.capabilities.clone(),
        };
        Ok(self.client.claim(&self.settings.worker, &request).await?.jobs)
    }

    fn spawn_job(&self, job: ClaimedJob, running: &mut JoinSet<()>) {
        (self.observer)(WorkerEvent::Claimed { job_id: &job.job_id, fence: job.fence });
        let (client, handler, observer) = (self.client.clone(), self.handler.clone(), self.observer.clone());
        let (patience, release) = (self.settings.report_patience, self.release.clone());
        running.spawn(async move {
            let (id, fence) = (job.job_id.clone(), job.fence);
            let lease = Duration::from_millis(job.lease_ms);
            let work = job_lease::guard(&client, (&id, fence), lease, handler(job));
            let outcome = match release.run_until_cancelled(work).await {
                Some(Ok(outcome)) => outcome,
                None => {
                    return observer(match report::release(&client, &id, fence, patience).await {
                        Ok(()) => WorkerEvent::Released { job_id: &id },
                        Err(error) => WorkerEvent::Refused { job_id: &id, error: error.to_string() },
                    });
                }
                Some(Err(loss)) => {
                    return observer(WorkerEvent::Dropped { job_id: &id, reason: loss.to_string() });
                }
            };
            let job_id = &id;
            observer(match (report::report(&client, job_id, fence, &outcome, patience).await, &outcome) {
                (Err(error), _) => WorkerEvent::Refused { job_id, error: error.to_string() },
                (Ok(()), HandlerOutcome::Completed { output }) => WorkerEvent::Completed { job_id, output },
                (Ok(()), HandlerOutcome::Failed { error, retryable }) => {
                    WorkerEvent::Failed { job_id, error, retryable: *retryable }
                }
            });
        });
    }
}

/// The delay after a number of failures in a row.
fn jitter(failures: u32) -> Duration {
    BACKOFF.full_jitter(failures, Seed::new(rand::random()))
}
