//! Limits: set for the system or for a tenant, and in force.

use interlock_model::TenantId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What a configuration document applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigScope {
    /// Every tenant without a value of its own.
    System,
    /// One tenant.
    Org,
}

/// Replaces the document of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigRequest {
    pub scope: ConfigScope,
    /// The tenant, for the scope `org`; the caller's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub scope_id: Option<String>,
    pub data: ConfigData,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigData {
    #[serde(default)]
    pub limits: LimitsData,
}

/// Absent values are inherited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsData {
    /// Runs that may be live at once. Zero rejects all starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 1_000_000_000)]
    pub max_concurrent_runs: Option<u32>,
    /// How long an idempotency key is kept; forever if no scope sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3_155_760_000u64)]
    pub idempotency_retention_sec: Option<u64>,
    /// Bytes that one turn of a run may render. In force from the next turn on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 65_536, maximum = 1_073_741_824)]
    pub max_turn_bytes: Option<u64>,
    /// Bytes that one run may hold: inputs, outputs and timeline. In force from the next turn on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 65_536, maximum = 1_073_741_824)]
    pub max_run_bytes: Option<u64>,
    /// Workflow ids that a tenant may use; those of deleted workflows count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_workflows: Option<u32>,
    /// Versions that one workflow may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_workflow_versions: Option<u32>,
    /// Workers on HTTP that a tenant may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_workers: Option<u32>,
    /// Tenants that the installation may have; of the scope `system` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_tenants: Option<u32>,
}

/// The document of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigView {
    pub scope: ConfigScope,
    #[schema(required)]
    pub scope_id: Option<String>,
    pub data: ConfigData,
    /// Raised with every change.
    pub revision: u64,
}

/// What is in force for a tenant: every limit has a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveConfig {
    pub data: ConfigData,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ConfigQuery {
    #[param(inline)]
    pub scope: ConfigScope,
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub scope_id: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EffectiveConfigQuery {
    /// The tenant; the caller's own if absent.
    pub org_id: Option<TenantId>,
}
