//! Jobs: one dispatch of one step to one worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Amount, JobUsage, StepBudget};
use crate::dispatch_policy::Hold;
use crate::fingerprint::Fingerprint;
use crate::meta::JobMeta;
use crate::scheduling::Edge;
use crate::trace::TraceParent;
use crate::{BudgetName, Fence, JobId, PermitId, Timestamp, Topic, WorkerId, WorkflowId};

/// A job as the engine creates it. It waits in its topic's queue until a worker claims it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub id: JobId,
    pub workflow: WorkflowId,
    pub topic: Topic,
    pub input: Value,
    /// When its step or run times out, with all of its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// How long a worker may take, from its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// When it ends unless a worker has claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "JobMeta::is_empty")]
    pub meta: JobMeta,
    /// What has to be reserved before it may go to its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<StepBudget>,
    /// The span of the client that started the run, if it sent a `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

impl NewJob {
    /// When a worker that claims it now must be done.
    pub fn deadline_from(&self, now: Timestamp) -> Option<Timestamp> {
        self.timeout.map(|timeout| now + timeout).into_iter().chain(self.deadline_at).min()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub new: NewJob,
    pub created_at: Timestamp,
    /// What was reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<PermitId>,
    /// Absent while the job is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<JobEnd>,
}

impl Job {
    /// Whether it reserves from a budget, and has not yet.
    pub fn must_reserve(&self) -> bool {
        self.new.budget.is_some() && self.permit.is_none()
    }
}

/// A worker's lease on a job. Stored beside the job, so that a heartbeat does not rewrite the job's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLease {
    pub worker: WorkerId,
    pub fence: Fence,
    pub ttl: Duration,
    pub expires_at: Timestamp,
    pub claimed_at: Timestamp,
    /// When the attempt times out. The lease is not extended beyond it. None: it has no timeout, or an older release gave it
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// The edge that it was given out over. A result counts only over the same one. None: given out by a release that did
    /// not record it.
    #[serde(default)]
    pub edge: Option<Edge>,
}

impl JobLease {
    pub fn was_given_over(&self, edge: Edge) -> bool {
        self.edge.is_none_or(|own| own == edge)
    }

    /// What becomes of its job without another word of the worker: the lease may have lasted until the deadline, or not.
    pub fn outcome_without_result(&self, now: Timestamp) -> JobOutcome {
        let is_over = |deadline: Timestamp| deadline <= now && deadline <= self.expires_at;
        if self.deadline_at.is_some_and(is_over) { JobOutcome::TimedOut } else { JobOutcome::Lost }
    }

    /// A heartbeat since the claim shows that the worker had begun.
    pub fn stale_state(&self) -> StaleState {
        if self.expires_at > self.claimed_at + self.ttl {
            StaleState::Running
        } else {
            StaleState::Dispatched
        }
    }
}

crate::named_enum! {
    /// How far a job had come when its lease expired.
    pub enum StaleState {
        /// No heartbeat came after the claim.
        Dispatched = "dispatched",
        Running = "running",
    }
}

/// An open job as a reconciler finds it.
#[derive(Debug, Clone, Copy)]
pub struct OpenJob<'a> {
    pub lease: Option<&'a JobLease>,
    pub is_in_queue: bool,
    /// A policy holds it back from its queue.
    pub is_held: bool,
}

impl OpenJob<'_> {
    /// The next claim gets it.
    pub fn is_queued(self) -> bool {
        self.lease.is_none() && self.is_in_queue
    }

    /// No worker has it, and no claim would find it.
    pub fn is_orphaned(self) -> bool {
        self.lease.is_none() && !self.is_in_queue && !self.is_held
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    pub cause: EndCause,
    pub at: Timestamp,
    /// The worker's fence; [`Fence::NONE`] if no worker had the job.
    pub held: Fence,
    /// Raised above `held`, so that the store rejects later writes of that worker.
    pub fence: Fence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// Of the worker's result, to know it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Fingerprint>,
}

impl JobEnd {
    /// Whether this outcome is the one that ended the job.
    pub fn is_of(&self, outcome: &JobOutcome) -> bool {
        self.cause == outcome.cause() && (self.result.is_none() || self.result == outcome.fingerprint())
    }
}

crate::named_enum! {
    pub enum EndCause {
        Completed = "completed",
        Failed = "failed",
        /// Its lease expired; the step is dispatched again as another job.
        Lost = "lost",
        /// Its worker has handed it to the next; the step is dispatched again as another job.
        Released = "released",
        /// Its attempt took too long, or no worker claimed it in time.
        TimedOut = "timed_out",
        /// Its run or step ended without it.
        Revoked = "revoked",
        /// An operator cancelled this job.
        Cancelled = "cancelled",
        /// A policy, a budget, or the person that was asked, denied it before it reached a worker.
        Denied = "denied",
    }
}

/// The outcome of a job, as an event of its run's inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    Completed {
        output: Value,
        #[serde(default, skip_serializing_if = "JobUsage::is_empty")]
        usage: JobUsage,
    },
    Failed {
        error: String,
        retryable: bool,
        /// When another attempt may help, by its worker. It wins over the backoff of the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "JobUsage::is_empty")]
        usage: JobUsage,
    },
    Lost,
    /// The worker took longer than an attempt may take.
    TimedOut,
    /// No worker claimed it in time.
    Unclaimed,
    /// Its worker stops working and hands it to the next.
    Released {
        reason: String,
    },
    Cancelled {
        by: String,
    },
    /// It never reached a worker.
    Denied {
        reason: String,
    },
    /// It never reached a worker: its budget has too little left.
    Exhausted {
        reason: String,
    },
}

impl JobOutcome {
    /// Done, without a report of what was spent.
    pub fn completed(output: Value) -> Self {
        Self::Completed { output, usage: JobUsage::new() }
    }

    /// Failed, without a report of what was spent.
    pub fn failed(error: String, retryable: bool) -> Self {
        Self::Failed { error, retryable, retry_after_ms: None, usage: JobUsage::new() }
    }

    /// The same with the time after which its worker wants another attempt.
    #[must_use]
    pub fn retried_after(mut self, wait_ms: Option<u64>) -> Self {
        if let Self::Failed { retry_after_ms, .. } = &mut self {
            *retry_after_ms = wait_ms;
        }
        self
    }

    /// The same with what its worker has spent.
    #[must_use]
    pub fn with_usage(mut self, spent: JobUsage) -> Self {
        if let Self::Completed { usage, .. } | Self::Failed { usage, .. } = &mut self {
            *usage = spent;
        }
        self
    }

    pub fn usage(&self) -> Option<&JobUsage> {
        match self {
            Self::Completed { usage, .. } | Self::Failed { usage, .. } => Some(usage),
            Self::Lost
            | Self::TimedOut
            | Self::Unclaimed
            | Self::Released { .. }
            | Self::Cancelled { .. }
            | Self::Denied { .. }
            | Self::Exhausted { .. } => None,
        }
    }

    /// What its worker has spent of a budget, if it says so.
    pub fn spent(&self, budget: &BudgetName) -> Option<Amount> {
        self.usage()?.get(budget).copied()
    }

    pub fn cause(&self) -> EndCause {
        match self {
            Self::Completed { .. } => EndCause::Completed,
            Self::Failed { .. } => EndCause::Failed,
            Self::Lost => EndCause::Lost,
            Self::TimedOut | Self::Unclaimed => EndCause::TimedOut,
            Self::Released { .. } => EndCause::Released,
            Self::Cancelled { .. } => EndCause::Cancelled,
            Self::Denied { .. } | Self::Exhausted { .. } => EndCause::Denied,
        }
    }

    /// Whether the other outcome, reported later, is the same result: then this one counts.
    pub fn is_repeated_by(&self, other: &Self) -> bool {
        let known = self.fingerprint();
        self.cause() == other.cause() && (known.is_none() || known == other.fingerprint())
    }

    /// Of what a worker reports, so that it can be known again without keeping it. What it has spent and when it wants
    /// another attempt is no part of it: the first report counts.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::Completed { output, .. } => Some(Fingerprint::of_output(output)),
            Self::Failed { error, retryable, .. } => Some(Fingerprint::of_failure(error, *retryable)),
            Self::Lost
            | Self::TimedOut
            | Self::Unclaimed
            | Self::Released { .. }
            | Self::Cancelled { .. }
            | Self::Denied { .. }
            | Self::Exhausted { .. } => None,
        }
    }
}

crate::named_enum! {
    /// The state of a job, as the API shows and filters it.
    pub enum JobState {
        /// A policy or a budget holds it back from its queue.
        Held = "held",
        Queued = "queued",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Lost = "lost",
        Released = "released",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        Denied = "denied",
    }
}

impl JobState {
    pub fn of(job: &Job, lease: Option<&JobLease>, hold: Option<&Hold>) -> Self {
        match (&job.end, lease, hold) {
            (None, None, Some(_)) => Self::Held,
            (None, None, None) => Self::Queued,
            (None, Some(_), _) => Self::Running,
            (Some(end), _, _) => Self::after(end.cause),
        }
    }

    pub fn after(cause: EndCause) -> Self {
        match cause {
            EndCause::Completed => Self::Succeeded,
            EndCause::Failed => Self::Failed,
            EndCause::Lost => Self::Lost,
            EndCause::Released => Self::Released,
            EndCause::TimedOut => Self::TimedOut,
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
            deadline_at: None,
            edge: Some(Edge::Http),
        }
    }

    #[test]
    fn only_a_job_without_lease_queue_entry_and_policy_hold_is_orphaned() {
        let leased = lease(950, 1_050);
        for (lease, is_in_queue, is_held, expected) in [
            (None, true, false, [true, false]),
            (None, false, false, [false, true]),
            (None, false, true, [false, false]),
            (Some(&leased), false, false, [false, false]),
        ] {
            let job = OpenJob { lease, is_in_queue, is_held };
            assert_eq!([job.is_queued(), job.is_orphaned()], expected, "{job:?}");
        }
    }

    #[test]
    fn a_lease_that_lasted_until_the_deadline_has_timed_out_and_a_shorter_one_was_lost() {
        let until = |deadline_ms| JobLease {
            deadline_at: Some(Timestamp::from_millis(deadline_ms)),
            ..lease(900, 1_000)
        };
        for (deadline_ms, now_ms, expected) in [
            (1_000, 1_000, JobOutcome::TimedOut),
            (1_000, 9_000, JobOutcome::TimedOut),
            // Its worker went offline before the deadline, though this was noticed after it.
            (1_001, 9_000, JobOutcome::Lost),
            (1_000, 999, JobOutcome::Lost),
        ] {
            let outcome = until(deadline_ms).outcome_without_result(Timestamp::from_millis(now_ms));
            assert_eq!(outcome, expected, "{deadline_ms} at {now_ms}");
        }
        assert_eq!(lease(900, 1_000).outcome_without_result(Timestamp::from_millis(9_000)), JobOutcome::Lost);
    }

    #[test]
    fn a_job_with_a_heartbeat_since_its_claim_was_running() {
        assert_eq!(lease(900, 1_000).stale_state(), StaleState::Dispatched);
        assert_eq!(lease(900, 1_050).stale_state(), StaleState::Running);
    }
}
