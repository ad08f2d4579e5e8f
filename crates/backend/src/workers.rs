//! Workers on HTTP, as they were last seen.

use interlock_model::{TenantId, Timestamp, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::{Page, PageRequest};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    pub worker: WorkerId,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub first_seen_at: Timestamp,
    pub last_seen_at: Timestamp,
    /// It is given no new jobs, and keeps those that it has.
    #[serde(default)]
    pub is_draining: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListWorkers {
    pub tenant: TenantId,
    pub page: PageRequest,
}
verb!(read => ListWorkers, "list_workers", "list workers", Page<WorkerRecord>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadWorker {
    pub tenant: TenantId,
    pub worker: WorkerId,
}
verb!(read => ReadWorker, "read_worker", "read a worker", Option<WorkerRecord>);

/// From now on the worker gets no new jobs, or gets them again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrainWorker {
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub is_draining: bool,
}
verb!(write => DrainWorker, "drain_worker", "drain a worker", ());

/// Removes a worker, unless it was seen after `unless_after`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForgetWorker {
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub unless_after: Timestamp,
}
verb!(write => ForgetWorker, "forget_worker", "forget a worker", ());
