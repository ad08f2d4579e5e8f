//! The events of a run, in order: as a list, and live as server-sent events with the same bodies.

use interlock_model::{JobId, StepKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::Time;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelineItem {
    /// From 1, without gaps. The `id:` of the event when it is streamed.
    pub seq: u64,
    pub time: Time,
    /// Such as `run_status`, `step_dispatched`, `step_completed`. New types may appear.
    pub r#type: String,
    #[schema(required)]
    pub step_id: Option<StepKey>,
    #[schema(required)]
    pub job_id: Option<JobId>,
    #[schema(required)]
    pub status: Option<String>,
    #[schema(required)]
    pub message: Option<String>,
    #[schema(required)]
    pub data: Option<Value>,
}

/// Which part of a timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TimelineQuery {
    /// 1 to 500; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the previous page: the number of its last event. Empty for the first page.
    #[param(pattern = "^[0-9]{0,15}$")]
    pub cursor: Option<String>,
}

impl TimelineItem {
    /// The new status of the run, if this event changed it.
    pub fn run_status(&self) -> Option<interlock_model::run::RunStatus> {
        let status = self.status.as_deref().filter(|_| self.r#type == "run_status")?;
        interlock_model::run::RunStatus::named(status)
    }
}
