//! Holding a job: heartbeats for as long as the lease can be trusted.

use std::time::Duration;

use interlock_model::JobId;
use tokio::time::Instant;

use crate::client::{Client, Error};
use crate::lease::{self, End, Lease, Renewal};

/// Why a job is no longer ours to work on.
#[derive(Debug, thiserror::Error)]
pub enum Loss {
    #[error("it was cancelled")]
    CancelRequested,
    /// Another worker has it, or its run is gone.
    #[error("it is no longer ours: {0}")]
    Refused(Error),
    /// No heartbeat got through in time. Another worker may have it by now.
    #[error("its lease ran out before a heartbeat got through")]
    LeaseRanOut,
}

/// A lease is never taken for shorter than this, so that a strange answer cannot make a tight loop.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Sends heartbeats until the job is lost. Meant to race with the work; it never says that all is well.
pub(super) async fn keep(client: &Client, job: &JobId, fence: u64, lease: Duration) -> Loss {
    // A gateway may be away for most of a lease: only the deadline ends the work.
    let lease = Lease { asked_at: Instant::now(), term: lease.max(LEASE_MIN), failures_max: None };
    let beat = move || async move {
        match client.heartbeat(job, fence).await {
            Ok(answer) if answer.cancel_requested => Renewal::Over(Loss::CancelRequested),
            Ok(answer) => Renewal::Renewed { term: Duration::from_millis(answer.lease_ms).max(LEASE_MIN) },
            Err(error) if !error.is_passing() => Renewal::Over(Loss::Refused(error)),
            Err(_) => Renewal::Unknown,
        }
    };
    match lease::keep(lease, beat).await {
        End::Over(loss) => loss,
        End::RanOut | End::RenewalsFailed => Loss::LeaseRanOut,
    }
}
