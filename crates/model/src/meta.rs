//! Job metadata for scheduling and policies.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Tag;

/// Maximum number of tags of one kind per step.
pub const TAGS_MAX: usize = 16;

/// Declared by a step and carried by each of its jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobMeta {
    /// What the job uses, for policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Tag>,
    /// The risks of the job, for policies.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub risk_tags: BTreeSet<Tag>,
    /// Capabilities that its worker must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<Tag>,
    #[serde(default, skip_serializing_if = "Priority::is_default")]
    pub priority: Priority,
}

impl JobMeta {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

crate::named_enum! {
    /// The urgency of a job among those that wait for the same workers.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Priority {
        Batch = "batch",
        #[default]
        Interactive = "interactive",
        Critical = "critical",
    }
}

impl Priority {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
