//! What the slow loops do to one tenant at a time: each verb checks and repairs in one step, and may be called at any time.

use std::time::Duration;

use interlock_model::job::JobLease;
use interlock_model::{JobId, RunId, TenantId, Topic};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;

/// The answer to [`RequeueJobs`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct RequeuedJobs {
    /// The topic of each job that waits in its queue.
    pub waiting: Vec<Topic>,
    /// Orphaned jobs: open, with no worker, and in no queue. They are in their queue again, and among the waiting.
    pub put_back: Vec<JobId>,
}

/// Where slots and live runs did not agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct SlotDrift {
    pub found: usize,
    /// A run that cannot be read is found and not repaired.
    pub repaired: usize,
    /// The last run that was looked at; none at the end.
    pub next: Option<RunId>,
}

/// Removes what is no longer needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retire {
    pub tenant: TenantId,
    /// Removes workers that were last seen, and marks of deleted runs that were started, longer ago than this.
    #[serde(serialize_with = "wire::as_millis")]
    pub unused_for: Duration,
    /// Where the walk through the idempotency keys continues.
    pub after: Option<String>,
    /// The most of each kind.
    pub limit: usize,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Retired {
    pub workers: usize,
    pub deleted_runs: usize,
    /// Idempotency keys and reservations whose time is over.
    pub keys: usize,
    /// Where the walk continues; none at the end.
    pub next: Option<String>,
}

/// Rows that one step reads where there is no index, and one page of a filtered list.
pub const LOOKED_AT_MAX: usize = 5_000;

/// The tenant's jobs whose lease has expired and that have not ended yet, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListExpiredLeases {
    pub tenant: TenantId,
    pub limit: usize,
}
verb!(read => ListExpiredLeases, "list_expired_leases", "list expired leases", Vec<(JobId, JobLease)>);

/// Goes through the newest `limit` jobs: answers which wait, and puts those into their queue that are open, with no
/// worker, and in no queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequeueJobs {
    pub tenant: TenantId,
    pub limit: usize,
}
verb!(write => RequeueJobs, "requeue_jobs", "requeue waiting jobs", RequeuedJobs);

/// Goes through `limit` runs, newest first, and gives a slot to each live one that has none. At the beginning (`after`
/// is none) also releases the slots of runs that have ended or are missing, and counts again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairSlots {
    pub tenant: TenantId,
    pub after: Option<RunId>,
    pub limit: usize,
}
verb!(write => RepairSlots, "repair_slots", "compare slots with runs", SlotDrift);

verb!(write => Retire, "retire", "remove what is unused", Retired);
