//! The operations of the drill and their expected outcomes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone)]
pub struct DrillPlan {
    /// The unique name of its workflow, topic and lock.
    pub(super) name: String,
    /// The duration of the lock's lease and the job's lease.
    pub(super) ttl: Duration,
    /// Whether the ledger compares fences.
    pub(super) guarded: bool,
}

impl DrillPlan {
    pub fn new(ttl: Duration, guarded: bool) -> Self {
        Self { name: format!("drill-{:08x}", rand::random::<u32>()), ttl, guarded }
    }
}

/// A participant in one phase of the drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrillActor {
    /// Before the pause.
    HolderLive,
    /// While the holder has the leases.
    ContenderEarly,
    /// After the holder's leases have expired.
    Contender,
    /// After the pause, while the contender has the leases.
    HolderLate,
    /// The drill itself, which checks the results.
    Afterwards,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrillOperation {
    LockAcquire,
    LockRenew,
    LockRelease,
    LedgerWrite,
    JobClaim,
    JobHeartbeat,
    JobProgress,
    JobFail,
    JobComplete,
    /// A check of the run's status and output.
    RunOutput,
    /// A check that the fences in the ledger never decrease.
    LedgerOrder,
}

impl DrillOperation {
    pub(super) fn is_acquisition(self) -> bool {
        matches!(self, Self::LockAcquire | Self::JobClaim)
    }

    /// Whether the operation concerns the job and not the lock.
    pub(super) fn is_of_job(self) -> bool {
        matches!(
            self,
            Self::JobClaim | Self::JobHeartbeat | Self::JobProgress | Self::JobFail | Self::JobComplete
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOutcome {
    Accepted,
    /// Accepted, under a larger fence than the holder's.
    LargerFence,
    /// The other participant has the lease.
    NotGranted,
    /// The fence is stale.
    Refused,
    /// The contender's work is the result.
    Kept,
}

/// An operation and what it must come to.
pub(super) type DrillCheck = (DrillActor, DrillOperation, ExpectedOutcome);

/// All operations in the order in which the participants perform them, and of the rows in the table. The job is acquired
/// first: the server may detect its expired lease later than that of the lock, which is not renewed during the wait.
pub(super) const CHECKS: [DrillCheck; 25] = {
    use DrillActor::{Afterwards, Contender, ContenderEarly, HolderLate, HolderLive};
    use DrillOperation::{
        JobClaim, JobComplete, JobFail, JobHeartbeat, JobProgress, LedgerOrder, LedgerWrite, LockAcquire,
        LockRelease, LockRenew, RunOutput,
    };
    use ExpectedOutcome::{Accepted, Kept, LargerFence, NotGranted, Refused};
    [
        (HolderLive, JobClaim, Accepted),
        (HolderLive, LockAcquire, Accepted),
        (ContenderEarly, JobClaim, NotGranted),
        (ContenderEarly, LockAcquire, NotGranted),
        (HolderLive, JobHeartbeat, Accepted),
        (HolderLive, JobProgress, Accepted),
        (HolderLive, LockRenew, Accepted),
        (HolderLive, LedgerWrite, Accepted),
        (Contender, JobClaim, LargerFence),
        (Contender, LockAcquire, LargerFence),
        (Contender, JobHeartbeat, Accepted),
        (Contender, JobProgress, Accepted),
        (Contender, LockRenew, Accepted),
        (Contender, LedgerWrite, Accepted),
        (HolderLate, LockRenew, Refused),
        (HolderLate, LedgerWrite, Refused),
        (HolderLate, LockRelease, Refused),
        (HolderLate, JobHeartbeat, Refused),
        (HolderLate, JobProgress, Refused),
        (HolderLate, JobFail, Refused),
        (HolderLate, JobComplete, Refused),
        (Contender, LockRelease, Accepted),
        (Contender, JobComplete, Accepted),
        (Afterwards, RunOutput, Kept),
        (Afterwards, LedgerOrder, Kept),
    ]
};
