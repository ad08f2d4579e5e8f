//! Timelines.

use interlock_model::history::Recorded;
use interlock_model::{RunId, TenantId};
use serde::Serialize;

use crate::verb::verb;

/// Up to `limit` events after number `after`, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadTimeline {
    pub tenant: TenantId,
    pub run: RunId,
    pub after: u64,
    pub limit: usize,
}
verb!(read => ReadTimeline, "read_timeline", "read a timeline", Vec<Recorded>);
