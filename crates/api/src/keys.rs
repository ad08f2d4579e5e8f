//! API keys. Only the answer to their creation has the secret.

use std::fmt;

pub use interlock_model::api_key::{KeyRole, WorkflowPattern};
use interlock_model::{ApiKeyId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKeyRequest {
    /// Tells people who or what uses the key.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// What the key allows.
    pub role: KeyRole,
    /// Absent: every tenant, only with the role `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// When the key stops working, in seconds from now, at most ten years; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub expires_in_sec: Option<u64>,
    /// The only workflows that the key may do something about: ids, or beginnings of ids followed by `*`. Absent: all.
    /// Not with the role `worker`, because jobs are claimed by topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 100)]
    pub workflows: Option<Vec<WorkflowPattern>>,
}

/// How to rotate a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKeyRequest {
    /// How long the old key keeps working, in seconds, at most 30 days; an hour by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2_592_000)]
    pub overlap_sec: Option<u64>,
}

/// A new key with its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    #[serde(flatten)]
    pub view: KeyView,
    /// What a client sends. It is shown only once, and not stored.
    pub key: String,
}

/// A secret must not reach a log by way of `{:?}`.
impl fmt::Debug for CreatedKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CreatedKey").field("view", &self.view).finish_non_exhaustive()
    }
}

/// A key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    pub id: ApiKeyId,
    pub name: String,
    /// What the key allows.
    pub role: KeyRole,
    /// Null: every tenant.
    #[schema(required)]
    pub tenant: Option<TenantId>,
    pub created_at: Time,
    /// Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Whether it has expired.
    #[serde(default)]
    pub expired: bool,
    /// Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflows: Option<Vec<WorkflowPattern>>,
    /// The key that its rotation made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<ApiKeyId>,
}
