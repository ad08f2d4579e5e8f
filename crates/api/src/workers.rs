//! Workers, as they were last seen.

use interlock_model::{Topic, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    #[schema(value_type = String)]
    pub worker_id: WorkerId,
    #[schema(value_type = Vec<String>)]
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub first_seen_at: Time,
    pub last_seen_at: Time,
    /// Whether it was seen lately enough to count on.
    pub online: bool,
}
