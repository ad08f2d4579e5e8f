//! What the slow loops do to one tenant at a time: each verb looks and mends in one step, and may be asked at any time.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::job::JobLease;
use interlock_model::{JobId, RunId, TenantId, Topic};

use crate::StoreError;

/// Jobs that wait, as the replayer finds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The topic of each job that waits in its queue.
    pub waiting: Vec<Topic>,
    /// Jobs that were open, with nobody, and in no queue. They wait in theirs again, and are among the waiting.
    pub put_back: Vec<JobId>,
}

/// Where slots and live runs did not agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotDrift {
    pub found: usize,
    /// A run that cannot be read is found and not mended.
    pub mended: usize,
    /// The last run that was looked at; none at the end.
    pub next: Option<RunId>,
}

/// What nobody needs any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retire {
    /// Workers that were not seen for so long, and marks of deleted runs that were started so long ago.
    pub unused_for: Duration,
    /// Where the walk through the idempotency keys goes on.
    pub after: Option<String>,
    /// Of each kind, at most so many.
    pub limit: usize,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retired {
    pub workers: usize,
    pub deleted_runs: usize,
    /// Idempotency keys and reservations whose time is over.
    pub keys: usize,
    /// Where the walk goes on; none at the end.
    pub next: Option<String>,
}

/// Rows that one step looks at where no index tells which of them are meant.
pub const LOOKED_AT_MAX: usize = 5_000;

#[async_trait]
pub trait ReconcileStore: Send + Sync {
    /// The tenant's jobs whose lease has run out and that nobody has ended yet, oldest first.
    async fn leases_run_out(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<(JobId, JobLease)>, StoreError>;

    /// Goes through the newest `limit` jobs: tells which wait, and puts those into their queue that are open, with nobody,
    /// and in none.
    async fn replay(&self, tenant: &TenantId, limit: usize) -> Result<Replayed, StoreError>;

    /// Goes through `limit` runs, newest first, and gives a slot to each that lives and has none. At the beginning
    /// (`after` is none) also takes back the slots of runs that have ended or are gone, and counts anew.
    async fn mend_slots(
        &self,
        tenant: &TenantId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<SlotDrift, StoreError>;

    /// Removes what is certain to be unused.
    async fn retire(&self, tenant: &TenantId, retire: &Retire) -> Result<Retired, StoreError>;
}
