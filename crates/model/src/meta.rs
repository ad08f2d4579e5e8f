//! What is known of a job besides its work: who can do it, how urgent it is, and what a policy may ask about it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Tag;

/// Tags of one kind that a step may have.
pub const TAGS_MAX: usize = 16;

/// As a step says it, and as each of its jobs carries it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobMeta {
    /// What the job is about to use, for policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Tag>,
    /// What makes it risky, for policies.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub risk_tags: BTreeSet<Tag>,
    /// What its worker must be capable of, all of it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<Tag>,
    #[serde(default, skip_serializing_if = "Priority::is_usual")]
    pub priority: Priority,
}

impl JobMeta {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How urgent a job is among those that wait for the same workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Batch,
    #[default]
    Interactive,
    Critical,
}

impl Priority {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Interactive => "interactive",
            Self::Critical => "critical",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
