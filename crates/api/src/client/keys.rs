//! Calls about API keys.

use super::paths::path;
use super::{Client, Result};
use crate::keys::{CreateKeyRequest, CreatedKey, KeyView};
use crate::{Page, PageQuery};

impl Client {
    /// Creates a key. Only this answer has its secret.
    pub async fn create_key(&self, request: &CreateKeyRequest) -> Result<CreatedKey> {
        self.post(&path(&[&"keys"])).body(request).read().await
    }

    pub async fn keys(&self, query: &PageQuery) -> Result<Page<KeyView>> {
        self.get(&path(&[&"keys"])).query(query).read().await
    }

    pub async fn revoke_key(&self, id: &str) -> Result<()> {
        self.delete(&path(&[&"keys", &id])).done().await
    }
}
