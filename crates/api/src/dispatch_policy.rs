//! The dispatch policy: what is in force, and what it would decide for a job.

use interlock_model::dispatch_policy::{FailureMode, Rule};
use interlock_model::{JobId, Tag, TenantId, Topic};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// Asks what the policy would decide for an existing or a hypothetical job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// An existing job; excludes all other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Tag>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub risk_tags: Vec<Tag>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub requires: Vec<Tag>,
}

/// What the policy would decide, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    pub tenant: TenantId,
    /// `allow`, `deny`, `require_approval`, `throttle`, or `wait` while the service is unreachable.
    pub decision: String,
    /// Which rule or service decided and why, for people.
    pub reason: String,
    /// The rules in their order, up to the one that decides.
    pub rules: Vec<RuleCheck>,
    /// Null if no service is configured.
    #[schema(required)]
    pub service: Option<PolicyServiceView>,
}

/// A rule that was evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleCheck {
    pub name: String,
    pub decision: String,
    pub matches: bool,
    /// What the rule requires and the job lacks; null if the rule decides.
    #[schema(required)]
    pub mismatch: Option<String>,
}

/// The policy service, as the answering process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyServiceView {
    /// Without secrets.
    pub url: String,
    /// Of the circuit breaker: `closed`, `open` or `half_open`.
    pub state: String,
    #[schema(required)]
    pub away_since: Option<Time>,
    /// What this tenant's jobs do while the service is unreachable: go (`open`) or wait (`closed`).
    #[schema(value_type = String)]
    pub failure: FailureMode,
}

/// The policy in force for the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DispatchPolicyView {
    /// In order; if none matches, the service decides, or the job may go.
    #[schema(value_type = Vec<Object>)]
    pub rules: Vec<Rule>,
    #[schema(required)]
    pub service: Option<PolicyServiceView>,
    /// Jobs of all tenants that this process let go because the service was unreachable.
    pub fail_open_total: u64,
}
