//! Where arms are measured: on servers of the lab's own, or on one that is there.

use std::time::Duration;

use async_trait::async_trait;
use interlock_api::client::Settings;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A server comes to its end without the lab's help after this.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(3);

pub type LaunchError = Box<dyn std::error::Error + Send + Sync>;

/// Starts servers in this process.
#[async_trait]
pub trait Launch: Send + Sync {
    /// A server that was started with these flags of `interlock serve`.
    async fn launch(&self, flags: &[String]) -> Result<Launched, LaunchError>;
}

/// A server of the lab's own.
pub struct Launched {
    pub connection: Settings,
    /// Asks it to stop.
    pub stop: CancellationToken,
    pub serving: JoinHandle<()>,
}

/// On what the lab measures.
pub enum Ground<'a> {
    /// A server that is there, with whatever it was started with.
    There(Settings),
    /// A server for each set of flags.
    Own {
        launch: &'a dyn Launch,
        /// Whether what is written there outlives the server.
        is_lasting: bool,
    },
}

impl Ground<'_> {
    pub(super) fn is_there(&self) -> bool {
        matches!(self, Self::There(_))
    }

    /// Whether somebody has to clean up.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::There(_) => true,
            Self::Own { is_lasting, .. } => *is_lasting,
        }
    }

    pub(super) async fn open(&self, flags: &[String]) -> Result<Site, LaunchError> {
        Ok(match self {
            Self::There(connection) => Site { connection: connection.clone(), own: None },
            Self::Own { launch, .. } => {
                let Launched { connection, stop, serving } = launch.launch(flags).await?;
                Site { connection, own: Some((stop, serving)) }
            }
        })
    }
}

/// A server to measure on. Dropping it asks the server to stop, if it is the lab's own.
pub(super) struct Site {
    pub(super) connection: Settings,
    own: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Site {
    /// Stops the server if it is the lab's own, and waits until it has let go.
    pub(super) async fn close(mut self) {
        if let Some((stop, serving)) = self.own.take() {
            stop.cancel();
            let abort = serving.abort_handle();
            if tokio::time::timeout(SHUTDOWN_LIMIT, serving).await.is_err() {
                abort.abort();
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.own {
            stop.cancel();
        }
    }
}
