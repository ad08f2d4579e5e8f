//! Retry policies of contended locks: what is in force, who changed it, and what it was before.

use interlock_model::contention::Scope;
use interlock_model::retry::RetryPolicy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// A policy on the wire is the text that people write.
pub mod policy_text {
    use std::borrow::Cow;

    use interlock_model::retry::RetryPolicy;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(policy: &RetryPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(policy)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RetryPolicy, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The tuning in force. One that was never changed is as configured, at version 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RetryPolicyView {
    pub scope: Scope,
    /// Such as `fixed:500ms`, `bounded_jitter:500ms:30%` or `full_jitter:10ms:2000ms`.
    #[serde(with = "policy_text")]
    #[schema(value_type = String)]
    pub policy: RetryPolicy,
    /// How long a start waits for the admission lock; how long a result that came by HTTP waits for its run.
    pub max_wait_ms: u64,
    /// Lease of the lock.
    pub lock_ttl_ms: u64,
    pub version: u64,
    /// Who put it in force; null if it is as configured.
    #[schema(required)]
    pub by: Option<String>,
    #[schema(required)]
    pub at: Option<Time>,
    #[schema(required)]
    pub reason: Option<String>,
    /// The version that a rollback restored.
    #[schema(required)]
    pub restores: Option<u64>,
}

/// The tuning in force, with its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RetryPolicyDetail {
    #[serde(flatten)]
    pub in_force: RetryPolicyView,
    /// Newest first; the last hundred.
    pub versions: Vec<PolicyVersion>,
}

/// One change. A null tuning is what each process was configured with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyVersion {
    pub version: u64,
    #[schema(required)]
    pub tuning: Option<TuningView>,
    pub by: String,
    pub at: Time,
    #[schema(required)]
    pub reason: Option<String>,
    #[schema(required)]
    pub restores: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TuningView {
    #[serde(with = "policy_text")]
    #[schema(value_type = String)]
    pub policy: RetryPolicy,
    pub max_wait_ms: u64,
    pub lock_ttl_ms: u64,
}

/// Sets a policy. Absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPolicyRequest {
    #[serde(with = "policy_text")]
    #[schema(
        value_type = String,
        pattern = "^(fixed|(bounded|full|equal|decorrelated)_jitter|exponential)(:[0-9]{1,7}(ms|s|%)?){1,3}$"
    )]
    pub policy: RetryPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60_000)]
    pub max_wait_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 3_600_000)]
    pub lock_ttl_ms: Option<u64>,
    /// Refused unless this version is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
    /// Recorded in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub reason: Option<String>,
}

/// Restores the previous version. A second rollback restores the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_is_the_text_that_people_write() {
        let read: SetPolicyRequest =
            serde_json::from_value(json!({"policy": "bounded_jitter:500ms:30%"})).unwrap();
        assert_eq!(read.policy, RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 });
        assert_eq!(serde_json::to_value(&read).unwrap(), json!({"policy": "bounded_jitter:500ms:30%"}));
        let wrong = serde_json::from_value::<SetPolicyRequest>(json!({"policy": "soon"})).unwrap_err();
        assert!(wrong.to_string().contains("fixed:500ms"), "{wrong}");
    }
}
