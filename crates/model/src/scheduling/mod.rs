//! Which workers may have which jobs, and why a job still waits.

mod pools;
mod waiting;

use serde::{Deserialize, Serialize};

use crate::{Topic, WorkerId};
pub use pools::{Pool, Pools};
pub use waiting::{WaitReason, WaitingFor};

/// Jobs that a worker on the bus takes at once, where it does not say.
pub const DEFAULT_CAPACITY: u32 = 4;

/// Where a worker comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// It asks for jobs when it has room.
    Http,
    /// Jobs are pushed to it.
    Nats,
}

/// A worker that is there, as it was last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    pub worker: WorkerId,
    pub edge: Edge,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub pool: Option<String>,
    /// It is given no new jobs.
    pub is_draining: bool,
    /// What it carries and could carry; absent where only the worker knows.
    pub load: Option<Load>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub jobs: u32,
    pub jobs_max: u32,
}

impl Load {
    #[must_use]
    pub fn has_room(self) -> bool {
        self.jobs < self.jobs_max
    }
}
