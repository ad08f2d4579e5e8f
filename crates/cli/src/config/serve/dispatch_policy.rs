//! The table `[dispatch_policy]` of the file: rules, and the service that decides where no rule does.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use interlock_model::TenantId;
use interlock_model::dispatch_policy::{FailureMode, Rules};
use serde::Deserialize;

use super::Secret;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DispatchPolicyChoices {
    #[serde(default)]
    pub(crate) rules: Rules,
    pub(crate) service: Option<PolicyServiceChoices>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyServiceChoices {
    pub(crate) url: String,
    pub(crate) timeout_ms: Option<NonZeroU64>,
    pub(crate) questions_max: Option<NonZeroUsize>,
    pub(crate) failures_max: Option<NonZeroU32>,
    pub(crate) pause_ms: Option<NonZeroU64>,
    /// A file with the token that is sent as `Authorization: Bearer …`.
    pub(crate) bearer_file: Option<PathBuf>,
    /// The same token, from `INTERLOCK_DISPATCH_POLICY_BEARER`.
    #[serde(skip)]
    pub(crate) bearer: Option<Secret>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Secret>,
    /// What happens to jobs while the service is unreachable.
    pub(crate) failure: FailureMode,
    /// Exceptions per tenant.
    #[serde(default)]
    pub(crate) tenants: BTreeMap<TenantId, FailureMode>,
}
