//! Documents about the installation itself, each with a version; and what processes count of a rollout.

use interlock_model::{InstanceId, RolloutId};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::verb::verb;

/// Bytes of a document, and of one process's figures. More is refused.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1_024;
pub const FIGURES_BYTES_MAX: usize = 64 * 1_024;

/// Processes whose figures of one rollout are kept. One more is refused.
pub const MEMBERS_MAX: usize = 2_000;

/// Every document that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentName {
    /// Tunings and rollouts.
    Contention,
    /// The epoch of the store, written once.
    Installation,
    /// The named limits of the system.
    Limits,
}

impl DocumentName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contention => "contention",
            Self::Installation => "installation",
            Self::Limits => "limits",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Raised with every change; the first is 1.
    pub version: u64,
    pub text: String,
}

/// None: it was never saved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadDocument {
    pub name: DocumentName,
}
verb!(read => ReadDocument, "read_document", "read a document", Option<Document>);

/// Replaces the document if `expected` is its version (0: it was never saved), and answers whether it did. The same call
/// again gives the same answer while no other call has saved it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaveDocument {
    pub name: DocumentName,
    pub expected: u64,
    pub text: String,
}
verb!(write => SaveDocument, "save_document", "save a document", bool);

/// Replaces what this process has counted of the rollout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaveFigures {
    pub rollout: RolloutId,
    pub instance: InstanceId,
    pub figures: String,
}
verb!(write => SaveFigures, "save_figures", "save the figures of a rollout", ());

/// What every process has counted of the rollout, by name, former processes included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadFigures {
    pub rollout: RolloutId,
}
verb!(read => ReadFigures, "read_figures", "read the figures of a rollout", Vec<(InstanceId, String)>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteFigures {
    pub rollout: RolloutId,
}
verb!(write => DeleteFigures, "delete_figures", "delete the figures of a rollout", ());

impl SaveDocument {
    /// Refuses a text that is too long.
    pub fn check(&self) -> Result<(), StoreError> {
        check_size(self.name.as_str(), &self.text, DOCUMENT_BYTES_MAX)
    }
}

impl SaveFigures {
    /// Refuses figures that are too long.
    pub fn check(&self) -> Result<(), StoreError> {
        check_size("what was counted of a rollout", &self.figures, FIGURES_BYTES_MAX)
    }
}

fn check_size(what: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    if text.len() > bytes_max {
        let bytes = text.len();
        return Err(StoreError::Conflict(format!("{what} has {bytes} bytes; {bytes_max} are the most")));
    }
    Ok(())
}

/// The error for one process more than [`MEMBERS_MAX`].
pub fn too_many(rollout: &RolloutId) -> StoreError {
    StoreError::Conflict(format!("{MEMBERS_MAX} processes have counted the rollout {rollout} already"))
}
