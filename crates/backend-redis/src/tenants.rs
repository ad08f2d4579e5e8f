//! Tenants and their limits.

use interlock_backend::tenants::{LimitScope, WrittenLimits};
use interlock_backend::verbs::{ListTenants, ReadLimits, SetLimits};
use interlock_backend::{Effect, Page, StoreError, Verb as _};
use interlock_model::TenantId;
use interlock_model::time::millis;
use redis::{FromRedisValue as _, Value};

use crate::client::ScriptClient;
use crate::known::Known;
use crate::reply::damaged;
use crate::script::Arguments;
use crate::store::{Execute, RedisStore, Scripted};

/// Tenants that are read at once.
const PAGE: usize = 1_000;

impl Scripted for SetLimits {
    fn arguments(&self) -> Vec<u8> {
        Arguments::default()
            .with("scope", &self.scope)
            .with("runs_max", self.limits.runs_max)
            .with("on_full", self.limits.on_full)
            .with("queued_max", self.limits.queued_max)
            .with("queue_wait_ms", self.limits.queue_wait.map(millis))
            .with("queue_order", self.limits.queue_order)
            .with("key_retention", self.limits.key_retention.map(millis))
            .with("turn_bytes_max", self.limits.turn_bytes_max)
            .with("run_bytes_max", self.limits.run_bytes_max)
            .with("workflows_max", self.limits.workflows_max)
            .with("workflow_versions_max", self.limits.workflow_versions_max)
            .with("workers_max", self.limits.workers_max)
            .with("tenants_max", self.limits.tenants_max)
            .with("keeps_quotas", self.keeps_quotas)
            .packed()
    }

    fn learn(&self, revision: &u64, known: &Known) {
        if self.scope == LimitScope::System {
            let (before, _) = known.system_limits();
            let kept = if self.keeps_quotas { self.limits.with_quotas_of(before) } else { self.limits };
            known.wrote_limits(kept, *revision);
        }
    }
}

/// Every process follows the system's.
impl Scripted for ReadLimits {
    const IS_POLL: bool = true;

    fn learn(&self, written: &WrittenLimits, known: &Known) {
        if self.scope == LimitScope::System {
            known.learn_limits(written.limits, written.revision);
        }
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
    Vec::from_redis_value(value).map_err(|error| damaged("list_tenants", error.to_string()))
}
