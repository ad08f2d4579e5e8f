//! Job metadata for scheduling and policies.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Tag;

/// Maximum number of tags of one kind per step.
pub const TAGS_MAX: usize = 16;
/// Labels of one workflow or of the jobs of one step.
pub const LABELS_MAX: usize = 50;
/// Characters of a label's name, and of a short text about a job.
pub const LABEL_NAME_CHARS_MAX: usize = 256;
/// Characters of a label's value.
pub const LABEL_CHARS_MAX: usize = 4_096;

/// The label of a job that names the worker of its document. NATS workers get it as the id of an adapter, too.
pub const WORKER_LABEL: &str = "worker_id";

/// Labels that only some workers have. A job with one of them requires it as a capability, `NAME:VALUE`.
pub const PLACING_PREFIXES: [&str; 3] = ["placement.", "constraint.", "node."];

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
    /// Who acts, for workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    #[schema(inline)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_type: Option<ActorType>,
    /// For workers that deduplicate by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The pack of the worker's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_id: Option<String>,
    /// For workers: at most 50.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

crate::named_enum! {
    /// Who acts.
    pub enum ActorType {
        Human = "human",
        Service = "service",
    }
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
