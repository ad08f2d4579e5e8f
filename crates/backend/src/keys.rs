//! API keys, hashed.

use async_trait::async_trait;
pub use interlock_model::api_key::KeyRole as Role;
use interlock_model::api_key::WorkflowPattern;
use interlock_model::{ApiKeyId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::verb::verb;

/// Which tenants a key may access.
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
    /// From then on it opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The only workflows that it may do something about; never empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflows: Option<Vec<WorkflowPattern>>,
    /// The key whose rotation made this one, until the next rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ApiKeyId>,
    /// The key that its rotation made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<ApiKeyId>,
}

/// Remembers, outside of the store, that an installation has had keys. A store that lost its data has none, and without this
/// a new process would take it for one that never had any.
#[async_trait]
pub trait KeyMark: Send + Sync {
    async fn is_set(&self) -> Result<bool, StoreError>;

    /// Does nothing if it is set.
    async fn set(&self) -> Result<(), StoreError>;
}

/// Every gateway holds all keys in memory.
pub const KEYS_MAX: usize = 10_000;

/// Of those, one tenant's.
pub const KEYS_PER_TENANT_MAX: usize = 1_000;

/// Saves a new key. The store sets its `created_at`, and bounds how many there are, in all and of one tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CreateApiKey {
    pub key: ApiKey,
}
verb!(write => CreateApiKey, "create_api_key", "create an API key", ApiKey);

/// Replaces a key by a new one. The old one ends at `ends_at`, or before if it would have expired, and the one that it had
/// itself replaced is deleted: at most two secrets of one key work at a time. A key is replaced once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RotateApiKey {
    pub id: ApiKeyId,
    pub ends_at: Timestamp,
    /// The new key.
    pub key: ApiKey,
}
verb!(write => RotateApiKey, "rotate_api_key", "rotate an API key", ApiKey);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RevokeApiKey {
    pub id: ApiKeyId,
}
verb!(write => RevokeApiKey, "revoke_api_key", "revoke an API key", ());

/// All keys; there are at most [`KEYS_MAX`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListApiKeys;
verb!(read => ListApiKeys, "list_api_keys", "list API keys", Vec<ApiKey>);
