//! The job: claimed, kept, reported.

use std::time::Duration;

use interlock_api::client::Client;
use interlock_api::jobs::{ClaimRequest, ClaimedJob, CompleteRequest, FailRequest, ProgressRequest};
use interlock_model::LockToken;
use interlock_model::time::millis;
use serde_json::json;
use tokio::time::Instant;

use super::Hold;
use super::answer::{Told, answered};
use crate::drill::plan::What;
use crate::drill::talk::{Brief, Holding, Order, Role};
use crate::drill::verdict::Answer;

pub(super) struct Job<'a> {
    client: &'a Client,
    brief: &'a Brief,
    held: Option<(ClaimedJob, Instant)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Heartbeat,
    Progress,
    Fail,
    Complete,
}

impl From<Write> for What {
    fn from(write: Write) -> Self {
        match write {
            Write::Heartbeat => Self::JobHeartbeat,
            Write::Progress => Self::JobProgress,
            Write::Fail => Self::JobFail,
            Write::Complete => Self::JobComplete,
        }
    }
}

impl<'a> Job<'a> {
    pub(super) fn new(client: &'a Client, brief: &'a Brief) -> Self {
        Self { client, brief, held: None }
    }

    async fn heartbeat(&mut self, job: &ClaimedJob) -> Told {
        let asked_at = Instant::now();
        let kept = answered(|| self.client.heartbeat(&job.job_id, job.fence)).await;
        if let (Ok(_), Some((_, leased_at))) = (&kept, &mut self.held) {
            *leased_at = asked_at;
        }
        Told::of(&kept)
    }

    async fn progress(&self, job: &ClaimedJob) -> Told {
        let message = Some(format!("the {} is at work", self.brief.role));
        let request = ProgressRequest { fence: job.fence, percent: 50, message };
        Told::of(&answered(|| self.client.progress(&job.job_id, &request)).await)
    }

    async fn fail(&self, job: &ClaimedJob) -> Told {
        let error = format!("the {} gives up", self.brief.role);
        let request = FailRequest { fence: job.fence, error, retryable: true };
        Told::of(&answered(|| self.client.fail(&job.job_id, &request)).await)
    }

    async fn complete(&self, job: &ClaimedJob) -> Told {
        let output = json!({"by": self.brief.role});
        let request = CompleteRequest { fence: job.fence, output };
        Told::of(&answered(|| self.client.complete(&job.job_id, &request)).await)
    }
}

impl Hold for Job<'_> {
    type Write = Write;
    const HOLDING: Holding = Holding::Job;
    const TAKE: What = What::JobClaim;
    const ROUND: &'static [Write] = &[Write::Heartbeat, Write::Progress];

    /// Whoever is late tries everything. Whoever holds the job ends it in one way.
    fn last(role: Role) -> &'static [Write] {
        match role {
            Role::Holder => &[Write::Heartbeat, Write::Progress, Write::Fail, Write::Complete],
            Role::Contender => &[Write::Heartbeat, Write::Progress, Write::Complete],
        }
    }

    async fn take(&mut self, _: Order, wait: Duration) -> Told {
        let request = ClaimRequest {
            topics: vec![self.brief.topic.clone()],
            max_jobs: 1,
            wait_ms: millis(wait),
            lease_ms: Some(self.brief.ttl_ms),
            capabilities: Vec::new(),
        };
        let asked_at = Instant::now();
        // Sent once: what a claim got whose answer was lost is not there for the next one.
        let claimed = self.client.claim(&self.brief.worker, &request).await;
        let told = Told::of(&claimed);
        match claimed.map(|answer| answer.jobs.into_iter().next()) {
            Ok(Some(job)) => {
                self.held = Some((job, asked_at));
                told
            }
            Ok(None) => Told::new(Answer::Held, "no job"),
            Err(_) if told.answer == Answer::Accepted => Told { answer: Answer::Unclear, ..told },
            Err(_) => told,
        }
    }

    async fn write(&mut self, write: Write) -> Told {
        let Some((job, _)) = self.held.clone() else { return Told::new(Answer::Unclear, "not held") };
        match write {
            Write::Heartbeat => self.heartbeat(&job).await,
            Write::Progress => self.progress(&job).await,
            Write::Fail => self.fail(&job).await,
            Write::Complete => self.complete(&job).await,
        }
    }

    fn leased_at(&self) -> Option<Instant> {
        self.held.as_ref().map(|(_, leased_at)| *leased_at)
    }

    fn fence(&self) -> Option<u64> {
        self.held.as_ref().map(|(job, _)| job.fence)
    }

    fn token(&self) -> Option<LockToken> {
        None
    }
}
