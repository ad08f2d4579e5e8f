//! The installation: its store gets an epoch at the first start. A process that finds another epoch, or none, knows that
//! the store lost its data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::documents::DocumentName;
use interlock_backend::verbs::{ReadDocument, SaveDocument};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::process::Process;

/// How often the epoch is compared.
const POLL: Duration = Duration::from_secs(1);

/// What a process tells people who ask it whether it is ready.
pub const DATA_LOST: &str = "the store lost its data: it was flushed, replaced, or restarted without persistence. Restore \
     it if you can, then restart every process of this installation";

/// What a process knows of its installation.
#[derive(Debug, Default)]
pub(crate) struct Installation {
    epoch: OnceLock<String>,
    has_lost_data: AtomicBool,
}

impl Process {
    /// Learns the epoch of the store, and gives it one if it has none.
    pub async fn join_installation(&self) -> Result<(), StoreError> {
        let name = DocumentName::Installation;
        let mut found = self.call(ReadDocument { name }).await?;
        if found.is_none() {
            let text = self.identity.epoch();
            // If another process was first, its epoch counts.
            let _ = self.call(SaveDocument { name, expected: 0, text }).await?;
            found = self.call(ReadDocument { name }).await?;
        }
        let document = found.ok_or_else(|| StoreError::Conflict(DATA_LOST.to_owned()))?;
        let _ = self.installation.epoch.set(document.text);
        Ok(())
    }

    /// Whether the store has lost its data since this process began.
    pub fn has_lost_data(&self) -> bool {
        self.installation.has_lost_data.load(Ordering::Relaxed)
    }

    /// Compares the epoch of the store with the one that this process began with.
    pub async fn check_epoch(&self) -> Result<(), StoreError> {
        let Some(epoch) = self.installation.epoch.get() else { return Ok(()) };
        let found = self.call(ReadDocument { name: DocumentName::Installation }).await?;
        let is_other = found.is_none_or(|document| document.text != *epoch);
        if is_other && !self.installation.has_lost_data.swap(true, Ordering::Relaxed) {
            error!("{DATA_LOST}");
        }
        Ok(())
    }
}

/// Compares the epoch until `shutdown`.
pub(crate) async fn follow(process: Arc<Process>, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(POLL)).await.is_some() {
        if let Err(error) = process.check_epoch().await {
            debug!(%error, "the epoch of the store cannot be read");
        }
    }
}
