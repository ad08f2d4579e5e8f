//! Servers of the lab's own, one after the other.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use interlock_api::client::Settings;
use interlock_lab::contention::ground::{Launch, LaunchError, Launched};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::commands::own_server::{OwnServer, Standing};
use crate::exit::{Failure, Result};

pub(super) struct OwnServers {
    standing: Standing,
    /// The key to show where there may be a lock for it.
    given: Settings,
    /// Removed with everything in it.
    folder: TempDir,
    started: AtomicU32,
}

impl OwnServers {
    pub(super) fn new(standing: Standing, given: Settings) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("interlock-lab-").tempdir();
        let folder = folder.map_err(Failure::local("make a temporary folder"))?;
        Ok(Self { standing, given, folder, started: AtomicU32::new(0) })
    }
}

#[async_trait]
impl Launch for OwnServers {
    async fn launch(&self, flags: &[String]) -> std::result::Result<Launched, LaunchError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let data = self.folder.path().join(number.to_string());
        let server = OwnServer::build(&self.standing, &data, flags).await?;
        let connection = server.connection(self.given.clone());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(Box::pin(server.serve(stop.clone())));
        Ok(Launched { connection, stop, serving })
    }
}
