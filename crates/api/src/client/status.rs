//! Calls about the server itself.

use super::paths::path;
use super::{Client, Result};
use crate::status::StatusView;

impl Client {
    pub async fn status(&self) -> Result<StatusView> {
        self.get(&path(&[&"status"])).read().await
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
