//! Tenants and their limits.

use interlock_model::tenant::Tenant;
use interlock_model::{TenantId, Timestamp};

use super::slots::{self, LimitedTenant};
use super::store::Decide;
use super::store::look;
use super::tables::{Changes, Decided, Decision, Pick, Table, View, read};
use crate::tenants::{LimitScope, WrittenLimits};
use crate::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, ReadUsage, SetLimits};
use crate::{Page, StoreError};

/// The row of [`System`](Table::System) with the limits.
const SYSTEM_LIMITS: &str = "limits";

impl Decide for SetLimits {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<u64> {
        let (limits, revision) = (self.limits, written(view, &self.scope)?.revision + 1);
        let mut changes = Changes::default();
        match &self.scope {
            LimitScope::System => {
                changes.put(Table::System, SYSTEM_LIMITS, &WrittenLimits { limits, revision });
            }
            LimitScope::Tenant(id) => {
                let tenant = Tenant { limits, revision, ..slots::tenant(view, id)? };
                changes.put(Table::Tenants, id.as_str(), &tenant);
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
