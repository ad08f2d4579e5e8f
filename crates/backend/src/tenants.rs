//! Tenants and their limits.

use interlock_model::TenantId;
use interlock_model::limit::{EffectiveLimits, Limits};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::{Page, PageRequest};

/// Whose limits they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// The default for every tenant without limits of its own.
    System,
    Tenant(TenantId),
}

/// Limits as written down, with the number of their last change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenLimits {
    pub limits: Limits,
    pub revision: u64,
}

/// Replaces the limits of the scope. They are in force with the answer, which is the new revision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetLimits {
    pub scope: LimitScope,
    pub limits: Limits,
    /// Whether bounds and quotas stay as they are written, whatever `limits` say.
    pub keeps_quotas: bool,
}
verb!(write => SetLimits, "set_limits", "set limits", u64);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadLimits {
    pub scope: LimitScope,
}
verb!(read => ReadLimits, "read_limits", "read limits", WrittenLimits);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadEffectiveLimits {
    pub tenant: TenantId,
}
verb!(read => ReadEffectiveLimits, "read_effective_limits", "read limits", EffectiveLimits);

/// Every tenant that was ever used, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct ListTenants {
    pub page: PageRequest,
}
verb!(read => ListTenants, "list_tenants", "list tenants", Page<TenantId>);
