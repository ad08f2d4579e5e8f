//! Workers on HTTP and on NATS, as they were last seen.

use interlock_model::scheduling::Edge;
use interlock_model::{Topic, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    pub worker_id: WorkerId,
    /// How it gets jobs: it claims them over HTTP, or they are pushed over NATS.
    pub edge: Edge,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    /// As a worker on NATS reports it.
    #[schema(required)]
    pub pool: Option<String>,
    /// Null for a worker on HTTP, which claims when it has capacity.
    #[schema(required)]
    pub active_jobs: Option<u32>,
    #[schema(required)]
    pub max_parallel_jobs: Option<u32>,
    /// Null for a worker on NATS.
    #[schema(required)]
    pub first_seen_at: Option<Time>,
    pub last_seen_at: Time,
    /// Whether it was seen recently.
    pub online: bool,
    /// Whether it gets no new jobs and finishes those that it has.
    pub draining: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// False: the worker gets jobs again.
    pub draining: bool,
}
