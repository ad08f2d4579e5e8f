//! Jobs: claimed under a lease and a fence, reported once.

use std::time::Duration;

use interlock_model::dispatch_policy::Hold;
use interlock_model::job::{Job, JobLease, JobOutcome, JobState, NewJob};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, JobId, TenantId, Timestamp, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;
use crate::{Page, PageRequest};

/// Jobs before another one are counted up to here.
pub const JOBS_BEFORE_MAX: usize = 10_000;

/// A timeline with this many rows takes no new rows of progress; a job that has one replaces it.
pub const PROGRESS_ROWS_MAX: u64 = 10_000;

/// Why a result is refused that came over another edge than its lease.
pub const OTHER_EDGE: &str = "the job was not given out over this edge";

/// Gives waiting jobs to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub jobs_max: usize,
    pub term: LeaseTerm,
    /// How it is connected. Workers on HTTP are known by their claims; a draining one gets nothing.
    pub edge: Edge,
}

/// How long the lease of a claimed job lasts unless it is extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseTerm {
    /// This long from the claim, and again from every heartbeat.
    For(#[serde(serialize_with = "wire::as_millis")] Duration),
    /// Until the attempt times out, or this long where it does not: for workers that are watched by other means.
    UntilDeadline {
        #[serde(serialize_with = "wire::as_millis")]
        otherwise: Duration,
    },
}

impl LeaseTerm {
    /// The term of a lease that begins or is extended now, of an attempt that times out at `deadline`: never beyond it.
    pub fn of(self, deadline: Option<Timestamp>, now: Timestamp) -> Duration {
        match (self, time_left(deadline, now)) {
            (Self::For(term), Some(left)) => term.min(left),
            (Self::For(term) | Self::UntilDeadline { otherwise: term }, None) => term,
            (Self::UntilDeadline { .. }, Some(left)) => left,
        }
    }
}

fn time_left(deadline: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    // The engine notices a deadline that has just passed.
    deadline.map(|deadline| if deadline > now { deadline.since(now) } else { Duration::from_secs(1) })
}

/// A job that the worker now has a lease on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claimed {
    pub job: NewJob,
    pub lease: JobLease,
    /// Since when it had waited.
    pub queued_at: Timestamp,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Heartbeat {
    Extended {
        lease: Duration,
        expires_at: Timestamp,
    },
    /// The run or the job has ended: stop.
    CancelRequested,
}

/// The answer to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Report {
    Recorded,
    /// This worker had reported the same before.
    AlreadyRecorded,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JobView {
    pub job: Job,
    pub lease: Option<JobLease>,
    /// Why it must not go to its queue yet.
    pub hold: Option<Hold>,
    pub state: JobState,
}

/// How far a worker is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub percent: u8,
    pub message: Option<String>,
}

verb!(write => Claim, "claim", "claim jobs", Vec<Claimed>);

/// Extends the lease. An expired lease cannot be revived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExtendJobLease {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    /// From now on; none keeps the term that the job was claimed under.
    pub term: Option<LeaseTerm>,
}
verb!(write => ExtendJobLease, "extend_job_lease", "extend the lease of a job", Heartbeat);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordProgress {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    pub progress: Progress,
}
verb!(write => RecordProgress, "record_progress", "record progress", ());

/// Ends the job and puts its outcome into the run's inbox, in one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordResult {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    /// The edge that the result came over; none for what this server reports by itself.
    pub edge: Option<Edge>,
    pub outcome: JobOutcome,
}
verb!(write => RecordResult, "record_result", "record a result", Report);

/// Ends an open job on an operator's request. Answers with the state of the job then.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CancelJob {
    pub tenant: TenantId,
    pub job: JobId,
    pub by: String,
}
verb!(write => CancelJob, "cancel_job", "cancel a job", JobState);

/// Ends the tenant's jobs whose lease has expired or that no worker has claimed in time, so that their steps continue. At
/// most `limit` of each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpireLeases {
    pub tenant: TenantId,
    pub limit: usize,
}
verb!(write => ExpireLeases, "expire_leases", "expire leases", Vec<JobId>);

/// Ends what this NATS worker holds of the tenant's jobs, as if their leases had expired: the worker is offline. A worker of
/// the same name on HTTP is another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AbandonWorker {
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub limit: usize,
}
verb!(write => AbandonWorker, "abandon_worker", "end the leases of a NATS worker", Vec<JobId>);

/// How many jobs wait before it in its queue, up to [`JOBS_BEFORE_MAX`]; none if it does not wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountJobsBefore {
    pub tenant: TenantId,
    pub job: JobId,
}
verb!(read => CountJobsBefore, "count_jobs_before", "count the jobs before one", Option<usize>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadJob {
    pub tenant: TenantId,
    pub job: JobId,
}
verb!(read => ReadJob, "read_job", "read a job", Option<JobView>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListJobs {
    pub tenant: TenantId,
    pub state: Option<JobState>,
    pub page: PageRequest,
}
verb!(read => ListJobs, "list_jobs", "list jobs", Page<JobView>);
