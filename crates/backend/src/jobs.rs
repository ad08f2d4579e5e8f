//! Jobs: claimed under a lease and a fence, reported once.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::dispatch_policy::Hold;
use interlock_model::job::{Job, JobLease, JobOutcome, JobState, NewJob};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, JobId, TenantId, Timestamp, Topic, WorkerId};

use crate::{Page, PageRequest, StoreError};

/// Jobs before another one are counted up to here.
pub const JOBS_BEFORE_MAX: usize = 10_000;

/// A worker that asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub jobs_max: usize,
    pub term: LeaseTerm,
    /// On which edge it works. Those on HTTP are known by their claims; one that drains is given nothing.
    pub edge: Edge,
}

/// How long a claimed job stays with its worker without another word from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseTerm {
    /// So long, and so long again from every heartbeat.
    For(Duration),
    /// Until the step's time-out, or so long where it has none: for workers that are watched by other means.
    UntilDeadline { otherwise: Duration },
}

impl LeaseTerm {
    /// The term of a job that times out at `deadline`, claimed at `now`.
    #[must_use]
    pub fn of(self, deadline: Option<Timestamp>, now: Timestamp) -> Duration {
        match (self, deadline) {
            (Self::For(term), _) | (Self::UntilDeadline { otherwise: term }, None) => term,
            // A deadline that has just passed is the engine's to notice.
            (Self::UntilDeadline { .. }, Some(deadline)) => deadline.since(now).max(Duration::from_secs(1)),
        }
    }
}

/// A job that the worker now holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    pub job: NewJob,
    pub lease: JobLease,
    /// Since when it had waited.
    pub queued_at: Timestamp,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Heartbeat {
    Extended {
        lease: Duration,
        expires_at: Timestamp,
    },
    /// The run or the job was ended while the worker held it: stop.
    CancelRequested,
}

/// The answer to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Report {
    Recorded,
    /// This worker had reported the same before.
    AlreadyRecorded,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    pub job: Job,
    pub lease: Option<JobLease>,
    /// Why it must not go to its queue yet.
    pub hold: Option<Hold>,
    pub state: JobState,
}

/// How far a worker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub percent: u8,
    pub message: Option<String>,
}

#[async_trait]
pub trait JobStore: Send + Sync {
    /// Gives waiting jobs to the worker, oldest first, each under a new lease with a larger fence.
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError>;

    /// Extends the lease. A lease that has run out cannot be revived.
    async fn heartbeat(&self, tenant: &TenantId, job: &JobId, fence: Fence) -> Result<Heartbeat, StoreError>;

    /// The same, for another term from now on.
    async fn hold(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: LeaseTerm,
    ) -> Result<Heartbeat, StoreError>;

    async fn progress(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        progress: Progress,
    ) -> Result<(), StoreError>;

    /// Ends the job and puts its outcome into the run's inbox, in one step.
    async fn report(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        outcome: JobOutcome,
    ) -> Result<Report, StoreError>;

    /// Ends an open job on an operator's word. Returns where it stands then.
    async fn cancel_job(&self, tenant: &TenantId, job: &JobId, by: &str) -> Result<JobState, StoreError>;

    /// Ends the tenant's jobs whose lease has run out, so that their steps go to other workers.
    async fn expire(&self, tenant: &TenantId, limit: usize) -> Result<Vec<JobId>, StoreError>;

    /// Ends what this worker holds of the tenant's jobs, as if their leases had run out: the worker is gone.
    async fn abandon(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError>;

    /// How many jobs stand before it in its queue, up to [`JOBS_BEFORE_MAX`]; none if it does not wait.
    async fn jobs_before(&self, tenant: &TenantId, job: &JobId) -> Result<Option<usize>, StoreError>;

    async fn job(&self, tenant: &TenantId, job: &JobId) -> Result<Option<JobView>, StoreError>;

    async fn jobs(
        &self,
        tenant: &TenantId,
        state: Option<JobState>,
        page: &PageRequest,
    ) -> Result<Page<JobView>, StoreError>;
}
