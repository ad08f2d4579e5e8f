//! The servers under test: started by the lab, or already running.

use std::time::Duration;

use async_trait::async_trait;
use interlock_api::client::ClientSettings;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a server may take to shut down before its task is aborted.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(3);

pub type LaunchError = Box<dyn std::error::Error + Send + Sync>;

/// Starts servers in this process.
#[async_trait]
pub trait ServerLauncher: Send + Sync {
    /// Starts a server with these flags of `interlock serve`.
    async fn launch(&self, flags: &[String]) -> Result<LabServer, LaunchError>;
}

/// What the lab measures.
pub enum LabTarget<'a> {
    /// A running server with its own configuration.
    Existing(ClientSettings),
    /// One server per set of flags.
    Own {
        launcher: &'a dyn ServerLauncher,
        /// Whether the store outlives the server.
        is_persistent: bool,
    },
}

impl LabTarget<'_> {
    pub(super) fn is_existing(&self) -> bool {
        matches!(self, Self::Existing(_))
    }

    /// Whether the lab must delete what it created.
    pub(super) fn needs_cleanup(&self) -> bool {
        match self {
            Self::Existing(_) => true,
            Self::Own { is_persistent, .. } => *is_persistent,
        }
    }

    pub(super) async fn open(&self, flags: &[String]) -> Result<LabServer, LaunchError> {
        match self {
            Self::Existing(connection) => Ok(LabServer { connection: connection.clone(), own: None }),
            Self::Own { launcher, .. } => launcher.launch(flags).await,
        }
    }
}

/// A server under test. Dropping it stops the server if the lab started it.
pub struct LabServer {
    pub(super) connection: ClientSettings,
    own: Option<(DropGuard, JoinHandle<()>)>,
}

impl LabServer {
    /// A server that the lab started. Cancelling `stop` shuts it down.
    pub fn own(connection: ClientSettings, stop: CancellationToken, serving: JoinHandle<()>) -> Self {
        Self { connection, own: Some((stop.drop_guard(), serving)) }
    }

    /// Stops the server if the lab started it, and waits until it has shut down.
    pub(super) async fn close(self) {
        if let Some((stop, serving)) = self.own {
            drop(stop);
            let abort = serving.abort_handle();
            if tokio::time::timeout(SHUTDOWN_LIMIT, serving).await.is_err() {
                abort.abort();
            }
        }
    }
}
