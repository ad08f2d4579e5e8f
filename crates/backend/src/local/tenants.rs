//! Limits, as written down.

use interlock_model::TenantId;
use interlock_model::limit::Limits;

use super::rows::{SYSTEM_LIMITS, SystemRow};
use super::slots;
use super::tables::{Changes, Decision, Pick, Table, View, read};
use crate::tenants::{LimitScope, WrittenLimits};
use crate::{Page, PageRequest, StoreError};

pub(super) fn set(view: &dyn View, scope: &LimitScope, limits: Limits) -> Result<Decision<u64>, StoreError> {
    let mut changes = Changes::default();
    let answer = match scope {
        LimitScope::System => {
            let before: SystemRow = read(view, Table::System, SYSTEM_LIMITS)?.unwrap_or_default();
            let row = SystemRow { limits, revision: before.revision + 1 };
            changes.put(Table::System, SYSTEM_LIMITS, &row);
            row.revision
        }
        LimitScope::Tenant(id) => {
            let mut tenant = slots::tenant(view, id)?;
            tenant.limits = limits;
            tenant.revision += 1;
            changes.put(Table::Tenants, id.as_str(), &tenant);
            tenant.revision
        }
    };
    Ok(Decision { answer, changes })
}

pub(super) fn written(view: &dyn View, scope: &LimitScope) -> Result<WrittenLimits, StoreError> {
    match scope {
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

pub(super) fn list(view: &dyn View, page: &PageRequest) -> Result<Page<TenantId>, StoreError> {
    // The first key after `after` is `after` with the smallest character behind it.
    let from = page.after.as_ref().map_or(String::new(), |after| format!("{after}\0"));
    let rows = view.scan(Table::Tenants, &from, "~", Pick::First(page.limit.saturating_add(1)))?;
    let has_more = rows.len() > page.limit;
    let items: Vec<TenantId> = rows.iter().take(page.limit).filter_map(|row| row.key.parse().ok()).collect();
    let next = items.last().filter(|_| has_more).map(ToString::to_string);
    Ok(Page { items, next })
}
