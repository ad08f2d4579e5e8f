//! Calls about the server itself.

use super::paths::path;
use super::{Client, Result, unreachable};
use crate::status::StatusView;

impl Client {
    pub async fn status(&self) -> Result<StatusView> {
        self.get(&path(&[&"status"])).read().await
    }

    /// The numbers for Prometheus, as they are written. Needs no key.
    pub async fn metrics(&self) -> Result<String> {
        let response = self.get("/metrics").stream().await?;
        response.text().await.map_err(|error| unreachable(self.gateway(), &error))
    }

    /// Whether the process is alive and answers. Needs no key.
    pub async fn is_alive(&self) -> Result<()> {
        self.get("/healthz").done().await
    }

    /// Whether the store answers. Needs no key.
    pub async fn is_ready(&self) -> Result<()> {
        self.get("/readyz").done().await
    }
}
