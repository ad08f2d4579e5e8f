//! Tenants and their limits.

use interlock_model::limit::TENANTS_MAX_DEFAULT;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::tenant::Tenant;
use interlock_model::{TenantId, Timestamp};

use super::draft::Draft;
use super::slots::{self, LimitedTenant};
use super::store::Decide;
use super::store::look;
use super::tables::{Changes, Decided, Decision, Pick, Table, View, read};
use crate::tenants::{LimitScope, WrittenLimits};
use crate::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, ReadUsage, SetLimits};
use crate::{Page, Quota, StoreError};

/// The row of [`System`](Table::System) with the limits.
const SYSTEM_LIMITS: &str = "limits";

/// The row of [`System`](Table::System) with the number of tenants.
const TENANTS: &str = "tenants";

/// Counts the tenant when it comes into being: with the first row that is written for it.
pub(super) fn register(view: &dyn View, changes: &mut Changes, id: &TenantId) -> Result<(), StoreError> {
    if view.get(Table::Tenants, id.as_str())?.is_some() {
        return Ok(());
    }
    let count: u32 = read(view, Table::System, TENANTS)?.unwrap_or(0);
    let most = written(view, &LimitScope::System)?.limits.tenants_max.unwrap_or(TENANTS_MAX_DEFAULT);
    if count >= most {
        return Err(StoreError::QuotaReached { quota: Quota::Tenants, most });
    }
    changes.put(Table::System, TENANTS, &(count + 1));
    Ok(())
}

impl Decide for SetLimits {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<u64> {
        let before = written(view, &self.scope)?;
        let revision = before.revision + 1;
        let limits = if self.keeps_quotas { self.limits.with_quotas_of(before.limits) } else { self.limits };
        let mut changes = Changes::default();
        match &self.scope {
            LimitScope::System => {
                changes.put(Table::System, SYSTEM_LIMITS, &WrittenLimits { limits, revision });
            }
            LimitScope::Tenant(id) => {
                let mut draft = Draft::new(view, now, id);
                let tenant = draft.tenant()?;
                (tenant.limits, tenant.revision) = (limits, revision);
                // A raised limit is in force for those that wait, too.
                draft.grant_slots(&[SlotClaim::tenant_runs()])?;
                return draft.answer(revision);
            }
        }
        Ok(Decision { answer: revision, changes })
    }
}

pub(super) fn written(view: &dyn View, scope: &LimitScope) -> Result<WrittenLimits, StoreError> {
    match scope {
        LimitScope::System => Ok(read(view, Table::System, SYSTEM_LIMITS)?.unwrap_or_default()),
        LimitScope::Tenant(id) => {
            let Tenant { limits, revision, .. } = slots::tenant(view, id)?;
            Ok(WrittenLimits { limits, revision })
        }
    }
}

look!(ReadLimits, |verb, view| written(view, &verb.scope));

look!(ListTenants, |verb, view| {
    let page = &verb.page;
    // The first key after `after` is `after` with the smallest character behind it.
    let from = page.after.as_ref().map_or(String::new(), |after| format!("{after}\0"));
    let rows = view.scan(Table::Tenants, &from, "~", Pick::First(page.limit.saturating_add(1)))?;
    let has_more = rows.len() > page.limit;
    let items: Vec<TenantId> = rows.iter().take(page.limit).filter_map(|row| row.key.parse().ok()).collect();
    let next = items.last().filter(|_| has_more).map(ToString::to_string);
    Ok(Page { items, next })
});

look!(ReadEffectiveLimits, |verb, view| Ok(LimitedTenant::read(view, &verb.tenant)?.limits));

look!(ReadUsage, |verb, view| Ok(LimitedTenant::read(view, &verb.tenant)?.usage()));
