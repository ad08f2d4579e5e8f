//! Named limits of the system, as each tenant has them.

use interlock_model::limit::owner::{SYSTEM_LIMITS_MAX, is_of_system};
use interlock_model::limit::rule::{LIMITS_MAX, SlotClaim};
use interlock_model::{LimitName, TenantId};

use super::draft::{Draft, decide};
use super::rows;
use super::tables::{Pick, Table, View, parse, scan_prefix};
use crate::StoreError;
use crate::limits::{StoredLimit, SystemAdopted};
use crate::verbs::AdoptSystemLimits;

/// All named limits of a tenant, by name.
pub(super) fn stored_limits(view: &dyn View, tenant: &TenantId) -> Result<Vec<StoredLimit>, StoreError> {
    let most = LIMITS_MAX as usize + SYSTEM_LIMITS_MAX;
    let rows = scan_prefix(view, Table::Limits, &rows::of_tenant(tenant), Pick::First(most))?;
    rows.iter().map(|row| parse(Table::Limits, &row.key, &row.value)).collect()
}

impl Draft<'_> {
    /// Replaces the copies of the system's limits. Returns those that have changed.
    fn adopt(&mut self, limits: &[StoredLimit]) -> Result<Vec<LimitName>, StoreError> {
        let mut before = stored_limits(self.view, self.id)?;
        before.retain(|limit| is_of_system(&limit.name));
        let is_gone = |limit: &&StoredLimit| limits.iter().all(|other| other.name != limit.name);
        let mut changed: Vec<LimitName> =
            before.iter().filter(is_gone).map(|limit| limit.name.clone()).collect();
        for name in &changed {
            self.put_limit(name, None);
        }
        for limit in limits.iter().filter(|limit| !before.contains(limit)) {
            self.put_limit(&limit.name, Some(limit.clone()));
            changed.push(limit.name.clone());
        }
        Ok(changed)
    }
}

decide!(AdoptSystemLimits, |verb, draft| {
    let mut changed = Vec::new();
    if verb.version > draft.tenant()?.system_revision {
        changed = draft.adopt(&verb.limits)?;
        let tenant = draft.tenant()?;
        (tenant.system_revision, tenant.system_limits) = (verb.version, verb.limits.len());
        // Starts by the limits as they were are refused.
        tenant.limits_revision += u64::from(!changed.is_empty());
    }
    for name in &changed {
        draft.grant_all(name)?;
    }
    draft.grant_slots(&[SlotClaim::tenant_runs()])?;
    Ok(SystemAdopted { version: draft.tenant()?.system_revision, granted: draft.granted })
});
