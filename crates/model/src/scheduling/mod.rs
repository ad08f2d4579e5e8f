//! Which workers may run which jobs, and why a job waits.

mod pools;
mod waiting;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Topic, WorkerId};
pub use pools::{Pool, Pools};
pub use waiting::{WaitReason, WaitingFor, awaited_confirmation};

/// Concurrent jobs of a NATS worker that does not state its capacity.
pub const DEFAULT_CAPACITY: u32 = 4;

/// How a worker connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// It claims jobs when it has capacity.
    Http,
    /// Jobs are pushed to it.
    Nats,
}

/// An online worker, by its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    pub worker: WorkerId,
    pub edge: Edge,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub pool: Option<String>,
    /// It gets no new jobs.
    pub is_draining: bool,
    /// Absent if only the worker knows it.
    pub load: Option<Load>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub jobs: u32,
    pub jobs_max: u32,
}

impl Load {
    pub fn has_room(self) -> bool {
        self.jobs < self.jobs_max
    }
}
