//! Tenants and their limits.

use async_trait::async_trait;
use interlock_backend::tenants::{LimitScope, TenantStore, WrittenLimits};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::TenantId;
use interlock_model::limit::{EffectiveLimits, Limits};
use interlock_model::time::millis;
use redis::Value;

use crate::link::{Link, damaged};
use crate::pulse::read_limits;
use crate::script::{Call, Fields};
use crate::scripts;
use crate::store::RedisStore;

/// Tenants that are read at once.
const PAGE: usize = 1_000;

impl RedisStore {
    /// How many runs hold a slot, and what is written down for the tenant.
    pub(crate) async fn gate(&self, tenant: &TenantId) -> Result<(u32, Limits, u64), StoreError> {
        let call = Call::read(&scripts::GATE, "read usage", tenant);
        self.ask(call, |mut fields| {
            let active = fields.parsed("count")?;
            let (limits, revision) = read_limits(&mut fields)?;
            Ok((active, limits, revision))
        })
        .await
    }
}

#[async_trait]
impl TenantStore for RedisStore {
    async fn set_limits(&self, scope: &LimitScope, limits: Limits) -> Result<u64, StoreError> {
        let call = match scope {
            LimitScope::System => Call::global(&scripts::SET_LIMITS, "set limits", true).with("sys:limits"),
            LimitScope::Tenant(tenant) => {
                Call::write(&scripts::SET_LIMITS, "set limits", tenant).with("wf:tenant")
            }
        };
        let call = call.with(limits.runs_max).with(limits.key_retention.map(millis));
        let revision = self.ask(call, |mut fields| fields.parsed("revision")).await?;
        if *scope == LimitScope::System {
            self.link.known().wrote_limits(limits, revision);
        }
        Ok(revision)
    }

    async fn limits(&self, scope: &LimitScope) -> Result<WrittenLimits, StoreError> {
        let (limits, revision) = match scope {
            LimitScope::Tenant(tenant) => {
                let (_, limits, revision) = self.gate(tenant).await?;
                (limits, revision)
            }
            LimitScope::System => {
                let call = Call::global(&scripts::SYSTEM_LIMITS, "read limits", false);
                self.ask(call, |mut fields| read_limits(&mut fields)).await?
            }
        };
        Ok(WrittenLimits { limits, revision })
    }

    async fn effective_limits(&self, tenant: &TenantId) -> Result<EffectiveLimits, StoreError> {
        let (_, limits, _) = self.gate(tenant).await?;
        Ok(limits.under(self.link.known().system_limits().0))
    }

    async fn tenants(&self, page: &PageRequest) -> Result<Page<TenantId>, StoreError> {
        let mut names = list(&self.link, page.after.as_deref(), page.limit.saturating_add(1)).await?;
        let has_more = names.len() > page.limit;
        names.truncate(page.limit);
        Ok(Page { items: tenants_of(&names), next: names.pop().filter(|_| has_more) })
    }
}

/// Every tenant, by name.
pub(crate) async fn all(link: &Link) -> Result<Vec<TenantId>, StoreError> {
    let mut names: Vec<String> = Vec::new();
    loop {
        link.count_poll();
        let page = list(link, names.last().map(String::as_str), PAGE).await?;
        let is_last = page.len() < PAGE;
        names.extend(page);
        if is_last {
            return Ok(tenants_of(&names));
        }
    }
}

/// A name that is none of ours is nobody's tenant.
fn tenants_of(names: &[String]) -> Vec<TenantId> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

async fn list(link: &Link, after: Option<&str>, limit: usize) -> Result<Vec<String>, StoreError> {
    let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
    let mut command = redis::cmd("ZRANGE");
    command
        .arg(link.system_key("sys:tenants"))
        .arg(from)
        .arg("+")
        .arg("BYLEX")
        .arg("LIMIT")
        .arg(0)
        .arg(limit);
    let value: Value = link.connection().send(&command, false).await.map_err(|error| {
        let effect = interlock_backend::Effect::NotDone;
        StoreError::Unavailable { action: "list tenants", effect, reason: error.reason }
    })?;
    let read = || Fields::of("tenants", value)?.each(Fields::text);
    read().map_err(|error| damaged("tenants", error))
}
