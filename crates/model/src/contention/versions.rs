//! The version history of a tuning.

use serde::{Deserialize, Serialize};

use super::{BookError, Scope, Signed, Tuning};
use crate::Timestamp;

/// Versions kept per scope. Older ones cannot be restored.
pub(super) const KEPT_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The first change is 1; 0 is the process's configuration.
    pub number: u64,
    /// None means as configured.
    pub tuning: Option<Tuning>,
    pub by: String,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The version that this one restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores: Option<u64>,
}

/// The changes of one scope; the last one is current.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Versions(Vec<Version>);

impl Versions {
    /// None if it was never changed.
    pub fn last(&self) -> Option<&Version> {
        self.0.last()
    }

    pub fn number(&self) -> u64 {
        self.last().map_or(0, |version| version.number)
    }

    /// None means as configured.
    pub fn tuning(&self) -> Option<Tuning> {
        self.last().and_then(|version| version.tuning)
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Version> {
        self.0.iter().rev()
    }

    pub(super) fn set(&mut self, tuning: Tuning, signed: Signed) -> Version {
        self.push(Some(tuning), signed, None)
    }

    /// Restores the previous version as a new version. Repeated calls go back further.
    pub(super) fn roll_back(&mut self, scope: Scope, signed: Signed) -> Result<Version, BookError> {
        let name = scope.name();
        let in_force = self.last().map_or(0, |version| version.restores.unwrap_or(version.number));
        let Some(wanted) = in_force.checked_sub(1) else {
            return Err(BookError::Conflict(format!(
                "{name} is already as configured; there is no earlier version"
            )));
        };
        let kept = self.0.iter().find(|version| version.number == wanted);
        let tuning = match (wanted, kept) {
            (0, _) => None,
            (_, Some(version)) => version.tuning,
            (_, None) => {
                let sentence =
                    format!("version {wanted} of {name} is no longer stored; set the policy explicitly");
                return Err(BookError::Conflict(sentence));
            }
        };
        Ok(self.push(tuning, signed, Some(wanted)))
    }

    fn push(&mut self, tuning: Option<Tuning>, signed: Signed, restores: Option<u64>) -> Version {
        let Signed { by, at, reason } = signed;
        let version = Version { number: self.number() + 1, tuning, by, at, reason, restores };
        self.0.push(version.clone());
        self.forget_beyond(KEPT_MAX);
        version
    }

    pub(super) fn forget_beyond(&mut self, kept: usize) {
        let forgotten = self.0.len().saturating_sub(kept);
        self.0.drain(..forgotten);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
