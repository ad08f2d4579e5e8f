//! The lease of a job, renewed by heartbeats.

use std::time::Duration;

use interlock_lease::{Loss, Renewal, Term};
use interlock_model::JobId;
use interlock_model::lock::FAILURES_MAX;
use tokio::time::Instant;

use crate::client::{Client, Error};
use crate::jobs::HeartbeatRequest;
use crate::lock_guard::renewal_jitter;

/// Why the worker must stop working on a job.
#[derive(Debug, thiserror::Error)]
pub enum JobLoss {
    #[error("the job was cancelled")]
    CancelRequested,
    /// Another worker has it, or its run was deleted.
    #[error("the job was lost: {0}")]
    Refused(Error),
    #[error("{FAILURES_MAX} heartbeats in a row got no answer")]
    HeartbeatsFailed,
    /// Another worker may have it by now.
    #[error("the lease expired before a heartbeat got through")]
    LeaseExpired,
}

/// Shorter leases are extended to this, so that a wrong answer cannot cause a busy loop.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Sends heartbeats beside the work, which is dropped when the job is lost.
pub(super) async fn guard<T>(
    client: &Client,
    (job, fence): (&JobId, u64),
    lease: Duration,
    work: impl Future<Output = T>,
) -> Result<T, JobLoss> {
    let term = Term { asked_at: Instant::now(), ttl: lease.max(LEASE_MIN), failures_max: FAILURES_MAX };
    let beat = move || async move {
        match client.heartbeat(job, &HeartbeatRequest { fence }).await {
            Ok(answer) if answer.cancel_requested => Renewal::Refused(JobLoss::CancelRequested),
            Ok(answer) => Renewal::Extended(Duration::from_millis(answer.lease_ms).max(LEASE_MIN)),
            Err(error) if !error.is_transient() => Renewal::Refused(JobLoss::Refused(error)),
            Err(_) => Renewal::Failed,
        }
    };
    interlock_lease::guard(term, renewal_jitter, beat, work).await.map_err(|loss| match loss {
        Loss::Refused(loss) => loss,
        Loss::Failures(_) => JobLoss::HeartbeatsFailed,
        Loss::Deadline => JobLoss::LeaseExpired,
    })
}
