//! What is written by whom, and what must become of it. One table: the verdict goes by it, and so does its print.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One drill.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of its workflow, its topic and its lock. Nobody else's.
    pub name: String,
    /// Of the lock and of the job's lease.
    pub ttl: Duration,
    /// Whether the ledger compares fences.
    pub guarded: bool,
}

impl Plan {
    #[must_use]
    pub fn new(ttl: Duration, guarded: bool) -> Self {
        Self { name: format!("drill-{:08x}", rand::random::<u32>()), ttl, guarded }
    }
}

/// Whose write it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Before it is paused.
    HolderLive,
    /// While the holder holds.
    ContenderEarly,
    /// Once the holder's leases have run out.
    Contender,
    /// After it was paused, while the contender holds.
    HolderLate,
    /// What is there in the end.
    Afterwards,
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::HolderLive => "holder, live",
            Self::ContenderEarly => "contender, early",
            Self::Contender => "contender",
            Self::HolderLate => "holder, late",
            Self::Afterwards => "afterwards",
        })
    }
}

/// What is done, or looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    LockAcquire,
    LockRenew,
    LockRelease,
    LedgerWrite,
    JobClaim,
    JobHeartbeat,
    JobProgress,
    JobFail,
    JobComplete,
    /// The run's status and output.
    RunOutput,
    /// Whether later entries of the ledger have larger fences.
    LedgerOrder,
}

impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::LockAcquire => "lock acquire",
            Self::LockRenew => "lock renew",
            Self::LockRelease => "lock release",
            Self::LedgerWrite => "ledger write",
            Self::JobClaim => "job claim",
            Self::JobHeartbeat => "job heartbeat",
            Self::JobProgress => "job progress",
            Self::JobFail => "job fail",
            Self::JobComplete => "job complete",
            Self::RunOutput => "run output",
            Self::LedgerOrder => "ledger order",
        })
    }
}

/// What must become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    Accepted,
    /// Accepted, under a fence that is larger than the holder's.
    LargerFence,
    /// Somebody else has it.
    NotGranted,
    /// The fence is stale.
    Refused,
    /// The contender's work is what counts.
    Kept,
}

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Accepted => "accepted",
            Self::LargerFence => "larger fence",
            Self::NotGranted => "not granted",
            Self::Refused => "refused",
            Self::Kept => "kept",
        })
    }
}

/// Everything that is looked at, in the order in which it happens.
pub const CHECKS: [(Who, What, Expected); 25] = [
    (Who::HolderLive, What::LockAcquire, Expected::Accepted),
    (Who::HolderLive, What::LockRenew, Expected::Accepted),
    (Who::HolderLive, What::LedgerWrite, Expected::Accepted),
    (Who::HolderLive, What::JobClaim, Expected::Accepted),
    (Who::HolderLive, What::JobHeartbeat, Expected::Accepted),
    (Who::HolderLive, What::JobProgress, Expected::Accepted),
    (Who::ContenderEarly, What::LockAcquire, Expected::NotGranted),
    (Who::ContenderEarly, What::JobClaim, Expected::NotGranted),
    (Who::Contender, What::LockAcquire, Expected::LargerFence),
    (Who::Contender, What::LockRenew, Expected::Accepted),
    (Who::Contender, What::LedgerWrite, Expected::Accepted),
    (Who::Contender, What::JobClaim, Expected::LargerFence),
    (Who::Contender, What::JobHeartbeat, Expected::Accepted),
    (Who::Contender, What::JobProgress, Expected::Accepted),
    (Who::HolderLate, What::LockRenew, Expected::Refused),
    (Who::HolderLate, What::LedgerWrite, Expected::Refused),
    (Who::HolderLate, What::LockRelease, Expected::Refused),
    (Who::HolderLate, What::JobHeartbeat, Expected::Refused),
    (Who::HolderLate, What::JobProgress, Expected::Refused),
    (Who::HolderLate, What::JobFail, Expected::Refused),
    (Who::HolderLate, What::JobComplete, Expected::Refused),
    (Who::Contender, What::LockRelease, Expected::Accepted),
    (Who::Contender, What::JobComplete, Expected::Accepted),
    (Who::Afterwards, What::RunOutput, Expected::Kept),
    (Who::Afterwards, What::LedgerOrder, Expected::Kept),
];
