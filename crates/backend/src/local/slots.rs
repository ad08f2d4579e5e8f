//! Slots: acquired by an admission, released by the commit that ends the run.

use interlock_model::admission::Usage;
use interlock_model::limit::EffectiveLimits;
use interlock_model::tenant::Tenant;
use interlock_model::{RunId, TenantId};

use super::draft::Draft;
use super::tables::{Table, View, read};
use super::{rows, tenants};
use crate::StoreError;
use crate::tenants::LimitScope;

/// A tenant with the limits that apply to it, read in the same step that uses them.
pub(super) struct LimitedTenant {
    pub tenant: Tenant,
    pub limits: EffectiveLimits,
}

impl LimitedTenant {
    pub(super) fn read(view: &dyn View, id: &TenantId) -> Result<Self, StoreError> {
        let tenant = tenant(view, id)?;
        let system = tenants::written(view, &LimitScope::System)?;
        Ok(Self { limits: tenant.limits.under(system.limits), tenant })
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { runs_active: self.tenant.runs_active, runs_max: self.limits.runs_max }
    }
}

pub(super) fn tenant(view: &dyn View, id: &TenantId) -> Result<Tenant, StoreError> {
    Ok(read(view, Table::Tenants, id.as_str())?.unwrap_or_default())
}

impl Draft<'_> {
    pub(super) fn acquire_slot(&mut self, run: RunId) -> Result<(), StoreError> {
        self.tenant()?.runs_active += 1;
        self.mark(Table::Active, rows::run(self.id, run));
        Ok(())
    }

    /// Releases the slot of `run`, if it has one. A second time does nothing.
    pub(super) fn release_slot(&mut self, run: RunId) -> Result<(), StoreError> {
        let (key, now) = (rows::run(self.id, run), self.now);
        if self.has(Table::Active, &key)? {
            self.delete(Table::Active, key);
            let tenant = self.tenant()?;
            tenant.runs_active = tenant.runs_active.saturating_sub(1);
            tenant.slot_flow = tenant.slot_flow.freed(now);
        }
        Ok(())
    }
}
