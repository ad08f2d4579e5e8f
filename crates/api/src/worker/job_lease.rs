//! The lease of a job, renewed by heartbeats.

use std::time::Duration;

use interlock_model::JobId;
use tokio::time::Instant;

use crate::client::{Client, Error};
use crate::jobs::HeartbeatRequest;
use crate::lease::{self, Lease, LeaseEnd, Renewal};

/// Why the worker must stop working on a job.
#[derive(Debug, thiserror::Error)]
pub enum JobLoss {
    #[error("the job was cancelled")]
    CancelRequested,
    /// Another worker has it, or its run was deleted.
    #[error("the job was lost: {0}")]
    Refused(Error),
    /// Another worker may have it by now.
    #[error("the lease expired before a heartbeat got through")]
    LeaseExpired,
}

/// Shorter leases are extended to this, so that a wrong answer cannot cause a busy loop.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Sends heartbeats until the job is lost. Race it with the work.
pub(super) async fn keep(client: &Client, job: &JobId, fence: u64, lease: Duration) -> JobLoss {
    // A gateway may be unreachable for most of a lease: only the lease's end stops the work.
    let lease = Lease { asked_at: Instant::now(), term: lease.max(LEASE_MIN), failures_max: None };
    let beat = move || async move {
        match client.heartbeat(job, &HeartbeatRequest { fence }).await {
            Ok(answer) if answer.cancel_requested => Renewal::Lost(JobLoss::CancelRequested),
            Ok(answer) => Renewal::Renewed { term: Duration::from_millis(answer.lease_ms).max(LEASE_MIN) },
            Err(error) if !error.is_transient() => Renewal::Lost(JobLoss::Refused(error)),
            Err(_) => Renewal::Unknown,
        }
    };
    match lease::keep(lease, beat).await {
        LeaseEnd::Lost(loss) => loss,
        LeaseEnd::Expired | LeaseEnd::RenewalsFailed => JobLoss::LeaseExpired,
    }
}
