//! Slots: taken by an admission, given back by the commit that ends the run, and by nothing else.

use interlock_model::admission::Usage;
use interlock_model::limit::EffectiveLimits;
use interlock_model::tenant::Tenant;
use interlock_model::{RunId, TenantId, Timestamp};

use super::rows::{self, SYSTEM_LIMITS, SystemRow};
use super::tables::{Changes, Table, View, read};
use crate::StoreError;

/// A tenant with the limits that hold for it, read in the same step that uses them.
pub(super) struct Gate {
    pub tenant: Tenant,
    pub limits: EffectiveLimits,
}

impl Gate {
    pub(super) fn read(view: &dyn View, id: &TenantId) -> Result<Self, StoreError> {
        let tenant = tenant(view, id)?;
        let system: SystemRow = read(view, Table::System, SYSTEM_LIMITS)?.unwrap_or_default();
        Ok(Self { limits: tenant.limits.under(system.limits), tenant })
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { runs_active: self.tenant.runs_active, runs_max: self.limits.runs_max }
    }
}

pub(super) fn tenant(view: &dyn View, id: &TenantId) -> Result<Tenant, StoreError> {
    Ok(read(view, Table::Tenants, id.as_str())?.unwrap_or_default())
}

pub(super) fn take(changes: &mut Changes, id: &TenantId, tenant: &mut Tenant, run: RunId) {
    tenant.runs_active += 1;
    changes.mark(Table::Active, rows::run(id, run));
}

/// Gives the slot of `run` back, if it holds one. A second time does nothing.
pub(super) fn give_back(
    view: &dyn View,
    changes: &mut Changes,
    (id, tenant): (&TenantId, &mut Tenant),
    run: RunId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = rows::run(id, run);
    if view.get(Table::Active, &key)?.is_some() {
        changes.delete(Table::Active, key);
        tenant.runs_active = tenant.runs_active.saturating_sub(1);
        tenant.slot_flow = tenant.slot_flow.freed(now);
    }
    Ok(())
}
