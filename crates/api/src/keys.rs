//! API keys. The secret is in one answer only: the one that made it.

use std::fmt;

use interlock_model::{ApiKeyId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything.
    Admin,
    /// Approve, cancel, release locks, look everywhere.
    Operator,
    /// Start runs and read them.
    Starter,
    /// Claim jobs and report them.
    Worker,
    /// Read.
    Viewer,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Admin, Self::Operator, Self::Starter, Self::Worker, Self::Viewer];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Starter => "starter",
            Self::Worker => "worker",
            Self::Viewer => "viewer",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKeyRequest {
    /// For people: who or what uses it.
    pub name: String,
    pub role: Role,
    /// Absent: every tenant, which only an admin's key may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub tenant: Option<TenantId>,
}

/// A key that was just made, with its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    #[schema(value_type = String)]
    pub id: ApiKeyId,
    pub name: String,
    pub role: Role,
    #[schema(required, value_type = Option<String>)]
    pub tenant: Option<TenantId>,
    /// What a client sends. It is shown this once, and kept nowhere.
    pub key: String,
    pub created_at: Time,
}

/// A secret must not reach a log by way of `{:?}`.
impl fmt::Debug for CreatedKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CreatedKey").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A key as it is known afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    #[schema(value_type = String)]
    pub id: ApiKeyId,
    pub name: String,
    pub role: Role,
    /// Null: every tenant.
    #[schema(required, value_type = Option<String>)]
    pub tenant: Option<TenantId>,
    pub created_at: Time,
}
