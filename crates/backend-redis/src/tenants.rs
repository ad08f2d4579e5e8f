//! Tenants and their limits.

use interlock_backend::tenants::{LimitScope, WrittenLimits};
use interlock_backend::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, ReadUsage, SetLimits};
use interlock_backend::{Effect, Page, StoreError, Verb};
use interlock_model::TenantId;
use interlock_model::admission::Usage;
use interlock_model::limit::{EffectiveLimits, Limits};
use redis::{FromRedisValue as _, Value};

use crate::client::{ScriptClient, damaged};
use crate::known::Known;
use crate::pulse::read_limits;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Home, Script, script};
use crate::store::{Execute, RedisStore, Scripted};

/// Tenants that are read at once.
const PAGE: usize = 1_000;

impl Scripted for SetLimits {
    fn script() -> &'static Script {
        script!("set_limits")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        call_in::<Self>(Self::script(), &self.scope)
            .with("runs_max", self.limits.runs_max)
            .with("key_retention", self.limits.key_retention)
    }

    fn read(&self, mut reply: Reply) -> Result<u64, Unreadable> {
        reply.parsed("revision")
    }

    fn learn(&self, revision: &u64, known: &Known) {
        if self.scope == LimitScope::System {
            known.wrote_limits(self.limits, *revision);
        }
    }
}

impl Scripted for ReadLimits {
    fn script() -> &'static Script {
        script!("read_limits")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        call_in::<Self>(Self::script(), &self.scope)
    }

    fn read(&self, mut reply: Reply) -> Result<WrittenLimits, Unreadable> {
        let (limits, revision) = read_limits(&mut reply)?;
        Ok(WrittenLimits { limits, revision })
    }
}

impl Execute for ReadEffectiveLimits {
    async fn execute(self, store: &RedisStore) -> Result<EffectiveLimits, StoreError> {
        let call = call_in::<Self>(ReadLimits::script(), &LimitScope::Tenant(self.tenant));
        let (limits, _) = store.ask_script(call, |mut reply| read_limits(&mut reply)).await?;
        Ok(limits.under(store.client.known().system_limits().0))
    }
}

impl Execute for ReadUsage {
    async fn execute(self, store: &RedisStore) -> Result<Usage, StoreError> {
        let call = Call::for_verb::<Self>(script!("read_usage"), &self.tenant);
        let read = |mut reply: Reply| {
            let (limits, _): (Limits, u64) = read_limits(&mut reply)?;
            Ok((reply.parsed("runs_active")?, limits))
        };
        let (runs_active, limits) = store.ask_script(call, read).await?;
        Ok(Usage { runs_active, runs_max: limits.under(store.client.known().system_limits().0).runs_max })
    }
}

impl Execute for ListTenants {
    async fn execute(self, store: &RedisStore) -> Result<Page<TenantId>, StoreError> {
        let page = self.page;
        let mut names = list(&store.client, page.after.as_deref(), page.limit.saturating_add(1)).await?;
        let has_more = names.len() > page.limit;
        names.truncate(page.limit);
        Ok(Page { items: tenants_of(&names), next: names.pop().filter(|_| has_more) })
    }
}

/// A call about the limits of a scope: they are fields of one hash.
fn call_in<V: Verb>(script: &'static Script, scope: &LimitScope) -> Call {
    match scope {
        LimitScope::System => Call::for_verb::<V>(script, Home::System).with("name", "sys:limits"),
        LimitScope::Tenant(tenant) => Call::for_verb::<V>(script, tenant).with("name", "wf:tenant"),
    }
}

/// Every tenant, by name.
pub(crate) async fn all(client: &ScriptClient) -> Result<Vec<TenantId>, StoreError> {
    let mut names: Vec<String> = Vec::new();
    loop {
        client.count_poll();
        let page = list(client, names.last().map(String::as_str), PAGE).await?;
        let is_last = page.len() < PAGE;
        names.extend(page);
        if is_last {
            return Ok(tenants_of(&names));
        }
    }
}

/// Names that are not ours are left out.
fn tenants_of(names: &[String]) -> Vec<TenantId> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

async fn list(client: &ScriptClient, after: Option<&str>, limit: usize) -> Result<Vec<String>, StoreError> {
    let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
    let mut command = redis::cmd("ZRANGE");
    command
        .arg(client.system_key("sys:tenants"))
        .arg(from)
        .arg("+")
        .arg("BYLEX")
        .arg("LIMIT")
        .arg(0)
        .arg(limit);
    let value: Value = client.connection().send(&command, false).await.map_err(|error| {
        let effect = Effect::NotDone;
        StoreError::Unavailable { action: ListTenants::ACTION, effect, reason: error.reason }
    })?;
    Vec::from_redis_value(value).map_err(|error| damaged("list_tenants", Unreadable(error.to_string())))
}
