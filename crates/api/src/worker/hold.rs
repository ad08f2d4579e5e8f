//! Holding a job: heartbeats for as long as the lease can be trusted.

use std::time::Duration;

use interlock_model::JobId;
use tokio::time::Instant;

use crate::client::{Client, Error};

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
    let mut lease = lease.max(LEASE_MIN);
    let mut trusted_until = Instant::now() + lease;
    let mut pause = lease / 3;
    loop {
        tokio::time::sleep_until((Instant::now() + pause).min(trusted_until)).await;
        // The store counts from when it heard us, which is later: counting from the asking is the safe side.
        let asked_at = Instant::now();
        if asked_at >= trusted_until {
            return Loss::LeaseRanOut;
        }
        let patience = (asked_at + lease / 3).min(trusted_until);
        match tokio::time::timeout_at(patience, client.heartbeat(job, fence)).await {
            Ok(Ok(answer)) if answer.cancel_requested => return Loss::CancelRequested,
            Ok(Ok(answer)) => {
                lease = Duration::from_millis(answer.lease_ms).max(LEASE_MIN);
                trusted_until = asked_at + lease;
                pause = lease / 3;
            }
            Ok(Err(error)) if !error.is_passing() => return Loss::Refused(error),
            Ok(Err(_)) | Err(_) => pause = lease / 12,
        }
    }
}
