//! Looking at what belongs to no tenant: the servers beneath, and the processes themselves.

use async_trait::async_trait;
use interlock_model::doctor::{Finding, Invariant, Mending};

/// One invariant of the realm `Installation`, as one look found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    pub invariant: Invariant,
    pub seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// All that is wrong; nothing, if nothing is.
    Findings(Vec<Finding>),
    /// It could not be looked at. One sentence: why not.
    Unseen(String),
}

impl Probed {
    #[must_use]
    pub fn found(invariant: Invariant, findings: Vec<Finding>) -> Self {
        Self { invariant, seen: Seen::Findings(findings) }
    }

    #[must_use]
    pub fn unseen(invariant: Invariant, why: impl Into<String>) -> Self {
        Self { invariant, seen: Seen::Unseen(why.into()) }
    }
}

/// Somebody who can see a part of the installation.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Looks once at everything that it can see. Changes nothing, and always answers within a few seconds.
    async fn probe(&self) -> Vec<Probed>;

    /// Looks at the subject of a finding once more and mends it. None if the invariant is not its own.
    async fn mend(&self, invariant: Invariant, subject: &str) -> Option<Mending>;
}
