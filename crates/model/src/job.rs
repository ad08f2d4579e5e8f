//! One dispatch of one step to one worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dispatch_policy::Hold;
use crate::meta::JobMeta;
use crate::{Fence, JobId, Timestamp, Topic, WorkerId, WorkflowId};

/// A job as the engine asks for it. It waits in its topic's queue until a worker claims it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub id: JobId,
    pub workflow: WorkflowId,
    pub topic: Topic,
    pub input: Value,
    /// When the step's time-out ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "JobMeta::is_empty")]
    pub meta: JobMeta,
}

/// A job as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub new: NewJob,
    pub created_at: Timestamp,
    /// How it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<JobEnd>,
}

/// A worker's hold on a job. Kept beside the job, so that a heartbeat does not rewrite the job's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLease {
    pub worker: WorkerId,
    pub fence: Fence,
    pub ttl: Duration,
    pub expires_at: Timestamp,
    pub claimed_at: Timestamp,
}

impl JobLease {
    /// The worker, or whoever watches it, has not spoken for longer than it may be silent: the job runs without an owner.
    #[must_use]
    pub fn has_run_out(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// How far the job had come: one whose worker was heard of since the claim is being worked on.
    #[must_use]
    pub fn stale_state(&self) -> StaleState {
        if self.expires_at > self.claimed_at + self.ttl {
            StaleState::Running
        } else {
            StaleState::Dispatched
        }
    }
}

/// Of a job whose lease has run out: whether its worker was ever heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleState {
    /// Not since it was given the job.
    Dispatched,
    Running,
}

impl StaleState {
    pub const ALL: [Self; 2] = [Self::Dispatched, Self::Running];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dispatched => "dispatched",
            Self::Running => "running",
        }
    }
}

/// An open job as a reconciler finds it. Waiting, being lost and being nobody's are three different things.
#[derive(Debug, Clone, Copy)]
pub struct OpenJob<'a> {
    pub lease: Option<&'a JobLease>,
    pub is_in_queue: bool,
    /// A policy has not let it into its queue yet.
    pub is_held: bool,
}

impl OpenJob<'_> {
    /// It waits for a worker, and the next one that asks gets it.
    #[must_use]
    pub fn is_queued(self) -> bool {
        self.lease.is_none() && self.is_in_queue
    }

    /// Nobody has it, and nobody who asks would get it.
    #[must_use]
    pub fn is_orphaned(self) -> bool {
        self.lease.is_none() && !self.is_in_queue && !self.is_held
    }

    /// Somebody had it, and was not heard of for longer than its lease.
    #[must_use]
    pub fn runs_without_owner(self, now: Timestamp) -> bool {
        self.lease.is_some_and(|lease| lease.has_run_out(now))
    }
}

/// How a job ended, and what its worker held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    pub cause: EndCause,
    pub at: Timestamp,
    /// The fence that the worker held; [`Fence::NONE`] if no worker had it.
    pub held: Fence,
    /// Raised above `held`: no write of that worker is accepted any more.
    pub fence: Fence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    Completed,
    Failed,
    /// Its lease ran out; the step goes to another worker as another job.
    Lost,
    /// Its run or step ended without it.
    Revoked,
    /// An operator cancelled this job.
    Cancelled,
    /// A policy, or a person that it asked, refused it before it reached a worker.
    Denied,
}

/// What became of a job, as its run's inbox holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    Completed {
        output: Value,
    },
    Failed {
        error: String,
        retryable: bool,
    },
    Lost,
    Cancelled {
        by: String,
    },
    /// It never reached a worker.
    Denied {
        reason: String,
    },
}

impl JobOutcome {
    #[must_use]
    pub fn cause(&self) -> EndCause {
        match self {
            Self::Completed { .. } => EndCause::Completed,
            Self::Failed { .. } => EndCause::Failed,
            Self::Lost => EndCause::Lost,
            Self::Cancelled { .. } => EndCause::Cancelled,
            Self::Denied { .. } => EndCause::Denied,
        }
    }
}

/// Where a job stands, for people and filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It must not go to its queue yet.
    Held,
    Queued,
    Running,
    Succeeded,
    Failed,
    Lost,
    Cancelled,
    Denied,
}

impl JobState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
        }
    }

    #[must_use]
    pub fn of(job: &Job, lease: Option<&JobLease>, hold: Option<&Hold>) -> Self {
        match (&job.end, lease, hold) {
            (None, None, Some(_)) => Self::Held,
            (None, None, None) => Self::Queued,
            (None, Some(_), _) => Self::Running,
            (Some(end), _, _) => Self::after(end.cause),
        }
    }

    /// Where a job stands that ended so.
    #[must_use]
    pub fn after(cause: EndCause) -> Self {
        match cause {
            EndCause::Completed => Self::Succeeded,
            EndCause::Failed => Self::Failed,
            EndCause::Lost => Self::Lost,
            EndCause::Revoked | EndCause::Cancelled => Self::Cancelled,
            EndCause::Denied => Self::Denied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(claimed_ms: u64, expires_ms: u64) -> JobLease {
        JobLease {
            worker: "w".parse().unwrap(),
            fence: Fence::new(1),
            ttl: Duration::from_millis(100),
            expires_at: Timestamp::from_millis(expires_ms),
            claimed_at: Timestamp::from_millis(claimed_ms),
        }
    }

    #[test]
    fn an_open_job_is_queued_orphaned_held_or_without_an_owner_and_only_one_of_them() {
        let now = Timestamp::from_millis(1_000);
        let (live, over) = (lease(950, 1_050), lease(900, 1_000));
        for (lease, is_in_queue, is_held, expected) in [
            (None, true, false, [true, false, false]),
            (None, false, false, [false, true, false]),
            (None, false, true, [false, false, false]),
            (Some(&live), false, false, [false, false, false]),
            (Some(&over), false, false, [false, false, true]),
        ] {
            let job = OpenJob { lease, is_in_queue, is_held };
            assert_eq!(
                [job.is_queued(), job.is_orphaned(), job.runs_without_owner(now)],
                expected,
                "{job:?}"
            );
        }
    }

    #[test]
    fn a_job_whose_worker_was_heard_of_since_the_claim_was_running() {
        assert_eq!(lease(900, 1_000).stale_state(), StaleState::Dispatched);
        assert_eq!(lease(900, 1_050).stale_state(), StaleState::Running);
    }
}
