//! Documents about the installation itself, each with a version; and what processes count of a roll-out.

use async_trait::async_trait;
use interlock_model::{InstanceId, RolloutId};

use crate::StoreError;

/// Bytes of a document, and of one process's figures. More is refused.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1_024;
pub const FIGURES_BYTES_MAX: usize = 8 * 1_024;

/// Processes whose figures of one roll-out are kept. One more is refused.
pub const MEMBERS_MAX: usize = 2_000;

/// Every document that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentName {
    /// Tunings and roll-outs.
    Contention,
}

impl DocumentName {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contention => "contention",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Raised with every change; the first is 1.
    pub version: u64,
    pub text: String,
}

#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// None: it was never saved.
    async fn document(&self, name: DocumentName) -> Result<Option<Document>, StoreError>;

    /// Replaces the document if `expected` is its version (0: it was never saved), and says whether it did. The same
    /// call again gives the same answer while nobody else has saved it.
    async fn save_document(&self, name: DocumentName, expected: u64, text: &str) -> Result<bool, StoreError>;

    /// Replaces what this process has counted of the roll-out.
    async fn save_figures(
        &self,
        rollout: &RolloutId,
        instance: &InstanceId,
        figures: &str,
    ) -> Result<(), StoreError>;

    /// What every process has counted of the roll-out, by name, those of old included.
    async fn figures(&self, rollout: &RolloutId) -> Result<Vec<(InstanceId, String)>, StoreError>;

    async fn forget_figures(&self, rollout: &RolloutId) -> Result<(), StoreError>;
}

/// Whether there is room for so many bytes.
pub fn check_size(what: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    if text.len() > bytes_max {
        let bytes = text.len();
        return Err(StoreError::Conflict(format!("{what} has {bytes} bytes; {bytes_max} are the most")));
    }
    Ok(())
}

/// Why one more process's figures are not kept.
#[must_use]
pub fn too_many(rollout: &RolloutId) -> StoreError {
    StoreError::Conflict(format!("{MEMBERS_MAX} processes have counted the roll-out {rollout} already"))
}
