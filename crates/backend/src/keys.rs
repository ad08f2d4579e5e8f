//! API keys, hashed.

pub use interlock_model::api_key::KeyRole as Role;
use interlock_model::{ApiKeyId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

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
}

/// Every gateway holds all keys in memory.
pub const KEYS_MAX: usize = 10_000;

/// Saves a new key. The store sets its `created_at`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CreateApiKey {
    pub key: ApiKey,
}
verb!(write => CreateApiKey, "create_api_key", "create an API key", ApiKey);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RevokeApiKey {
    pub id: ApiKeyId,
}
verb!(write => RevokeApiKey, "revoke_api_key", "revoke an API key", ());

/// All keys; there are at most [`KEYS_MAX`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListApiKeys;
verb!(read => ListApiKeys, "list_api_keys", "list API keys", Vec<ApiKey>);
