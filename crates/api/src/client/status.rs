//! Calls about the server itself.

use super::paths::path;
use super::{Client, Result, unreachable};
use crate::status::StatusView;

impl Client {
    pub async fn status(&self) -> Result<StatusView> {
        self.get(&path(&[&"status"])).read().await
    }

    /// The metrics as Prometheus text. Needs no key.
    pub async fn metrics(&self) -> Result<String> {
        let response = self.get("/metrics").stream().await?;
        response.text().await.map_err(|error| unreachable(self.gateway(), &error))
    }

    /// Fails unless the process answers. Needs no key.
    pub async fn is_alive(&self) -> Result<()> {
        self.get("/healthz").done().await
    }
}
