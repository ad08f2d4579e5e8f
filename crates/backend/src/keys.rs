//! API keys, hashed.

use async_trait::async_trait;
use interlock_model::{ApiKeyId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// What a key may do. Each role may do what stands in the contract's table for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Admin,
    Operator,
    Starter,
    Worker,
    Viewer,
}

/// Whose things a key may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    Tenant(TenantId),
    /// Every tenant, by `X-Tenant-ID`.
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    pub role: Role,
    pub scope: KeyScope,
    /// Of the secret half. The secret itself is shown once and kept nowhere.
    pub secret_hash: String,
    pub created_at: Timestamp,
}

#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Keeps a new key. Its `created_at` is the store's.
    async fn create_key(&self, key: ApiKey) -> Result<ApiKey, StoreError>;
    async fn revoke_key(&self, id: &ApiKeyId) -> Result<(), StoreError>;
    /// All keys; there are at most [`KEYS_MAX`].
    async fn api_keys(&self) -> Result<Vec<ApiKey>, StoreError>;
}

/// Every gateway holds all keys in memory.
pub const KEYS_MAX: usize = 10_000;
