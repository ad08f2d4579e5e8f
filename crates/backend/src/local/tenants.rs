//! Tenants and their limits.

use interlock_model::admission::Usage;
use interlock_model::limit::EffectiveLimits;
use interlock_model::{TenantId, Timestamp};

use super::rows::{SYSTEM_LIMITS, SystemRow};
use super::slots::{self, LimitedTenant};
use super::store::{Decide, Look};
use super::tables::{Changes, Decided, Decision, Pick, Table, View, read};
use crate::tenants::{LimitScope, WrittenLimits};
use crate::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, ReadUsage, SetLimits};
use crate::{Page, StoreError};

impl Decide for SetLimits {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<u64> {
        let mut changes = Changes::default();
        let answer = match &self.scope {
            LimitScope::System => {
                let before: SystemRow = read(view, Table::System, SYSTEM_LIMITS)?.unwrap_or_default();
                let row = SystemRow { limits: self.limits, revision: before.revision + 1 };
                changes.put(Table::System, SYSTEM_LIMITS, &row);
                row.revision
            }
            LimitScope::Tenant(id) => {
                let mut tenant = slots::tenant(view, id)?;
                tenant.limits = self.limits;
                tenant.revision += 1;
                changes.put(Table::Tenants, id.as_str(), &tenant);
                tenant.revision
            }
        };
        Ok(Decision { answer, changes })
    }
}

impl Look for ReadLimits {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<WrittenLimits, StoreError> {
        match &self.scope {
            LimitScope::System => {
                let row: SystemRow = read(view, Table::System, SYSTEM_LIMITS)?.unwrap_or_default();
                Ok(WrittenLimits { limits: row.limits, revision: row.revision })
            }
            LimitScope::Tenant(id) => {
                let tenant = slots::tenant(view, id)?;
                Ok(WrittenLimits { limits: tenant.limits, revision: tenant.revision })
            }
        }
    }
}

impl Look for ListTenants {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<TenantId>, StoreError> {
        let page = &self.page;
        // The first key after `after` is `after` with the smallest character behind it.
        let from = page.after.as_ref().map_or(String::new(), |after| format!("{after}\0"));
        let rows = view.scan(Table::Tenants, &from, "~", Pick::First(page.limit.saturating_add(1)))?;
        let has_more = rows.len() > page.limit;
        let items: Vec<TenantId> =
            rows.iter().take(page.limit).filter_map(|row| row.key.parse().ok()).collect();
        let next = items.last().filter(|_| has_more).map(ToString::to_string);
        Ok(Page { items, next })
    }
}

impl Look for ReadEffectiveLimits {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<EffectiveLimits, StoreError> {
        Ok(LimitedTenant::read(view, &self.tenant)?.limits)
    }
}

impl Look for ReadUsage {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Usage, StoreError> {
        Ok(LimitedTenant::read(view, &self.tenant)?.usage())
    }
}
