//! Starts the lab's own servers, one after the other.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use interlock_api::client::ClientSettings;
use interlock_lab::contention::target::{LabServer, LaunchError, ServerLauncher};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::commands::own_server::{OwnServer, Standing};
use crate::exit::{Failure, Result};

pub(super) struct OwnServers {
    standing: Standing,
    /// Its API key is sent to servers on a shared store.
    given: ClientSettings,
    /// Deleted on drop.
    folder: TempDir,
    started: AtomicU32,
}

impl OwnServers {
    pub(super) fn new(standing: Standing, given: ClientSettings) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("interlock-lab-").tempdir();
        let folder = folder.map_err(Failure::local("create a temporary folder"))?;
        Ok(Self { standing, given, folder, started: AtomicU32::new(0) })
    }
}

#[async_trait]
impl ServerLauncher for OwnServers {
    async fn launch(&self, flags: &[String]) -> std::result::Result<LabServer, LaunchError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let data = self.folder.path().join(number.to_string());
        let server = OwnServer::build(&self.standing, &data, flags).await?;
        let connection = server.connection(self.given.clone());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(Box::pin(server.serve(stop.clone())));
        Ok(LabServer::own(connection, stop, serving))
    }
}
