//! How full limits are, and where runs wait, for those who look. It only reads; the answer may be outdated by the time it is
//! read.

use interlock_backend::documents::DocumentName;
use interlock_backend::limits::{LimitBook, StoredLimit};
use interlock_backend::tenants::{LimitScope, WrittenLimits};
use interlock_backend::verbs::{
    ListLimits, ReadDocument, ReadEffectiveLimits, ReadLimitUsage, ReadLimits, ReadQueuedRun,
};
use interlock_backend::{StoreError, StoreReader};
use interlock_model::limit::document::{LimitDocument, Pause, QueueDocument};
use interlock_model::limit::group::{Fullness, Group, GroupRule};
use interlock_model::limit::judge::RuledGroup;
use interlock_model::limit::owner::is_of_system;
use interlock_model::limit::place::{Blocked, QueuedRun};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::limit::{EffectiveLimits, Limits, TENANT_RUNS};
use interlock_model::{LimitName, RunId, TenantId, Timestamp};

use crate::system_limits::SystemBook;

/// All limits of a tenant, its own slots included.
#[derive(Debug, Clone)]
pub struct TenantLimits {
    pub book: LimitBook,
    pub written: WrittenLimits,
    pub effective: EffectiveLimits,
}

/// A run that waits, and for what.
#[derive(Debug, Clone)]
pub struct RunWait {
    pub queued: QueuedRun,
    pub blocked: Blocked,
    pub pause: Option<Pause>,
}

impl TenantLimits {
    pub async fn read(store: &StoreReader, tenant: &TenantId) -> Result<Self, StoreError> {
        let scope = LimitScope::Tenant(tenant.clone());
        Ok(Self {
            book: book(store, tenant).await?,
            written: store.call(ReadLimits { scope }).await?,
            effective: store.call(ReadEffectiveLimits { tenant: tenant.clone() }).await?,
        })
    }

    pub fn named(&self, name: &LimitName) -> Option<&StoredLimit> {
        self.book.limits.iter().find(|limit| limit.name == *name)
    }

    pub fn pause(&self, name: &LimitName) -> Option<&Pause> {
        match self.named(name) {
            Some(limit) => limit.paused.as_ref(),
            None if is_built_in(name) => self.book.paused.as_ref(),
            None => None,
        }
    }

    /// What a limit demands of its groups. One that was deleted demands nothing.
    pub fn rule(&self, name: &LimitName) -> GroupRule {
        let is_paused = self.pause(name).is_some();
        match self.named(name) {
            Some(limit) => limit.document.group_rule(is_paused),
            None if is_built_in(name) => self.effective.group_rule(is_paused),
            None => LimitDocument::default().group_rule(false),
        }
    }

    /// The document of the tenant's own slots. What it leaves out is the system's.
    pub fn built_in(&self) -> LimitDocument {
        let Limits { runs_max, on_full, queued_max, queue_wait, queue_order, .. } = self.written.limits;
        let wait_sec = queue_wait.map(|wait| u32::try_from(wait.as_secs()).unwrap_or(u32::MAX));
        let order = queue_order.unwrap_or_default();
        let queue =
            QueueDocument { max: queued_max, max_wait_sec: wait_sec, order, ..QueueDocument::default() };
        LimitDocument {
            max_runs: runs_max,
            on_full: on_full.unwrap_or_default(),
            queue: (queue != QueueDocument::default()).then_some(queue),
            ..LimitDocument::default()
        }
    }
}

/// The limits that the next start of the tenant meets: it may not have the last ones of the system yet.
async fn book(store: &StoreReader, tenant: &TenantId) -> Result<LimitBook, StoreError> {
    let mut book = store.call(ListLimits { tenant: tenant.clone() }).await?;
    let document = store.call(ReadDocument { name: DocumentName::Limits }).await?;
    let system = SystemBook::of(document.as_ref())?;
    if system.version > book.system {
        book.limits.retain(|limit| !is_of_system(&limit.name));
        book.limits.extend(system.limits);
        book.limits.sort_by(|one, other| one.name.cmp(&other.name));
        book.system = system.version;
    }
    Ok(book)
}

pub fn is_built_in(name: &LimitName) -> bool {
    name.as_str() == TENANT_RUNS
}

/// What happens in a group now.
pub async fn group(store: &StoreReader, tenant: &TenantId, claim: &SlotClaim) -> Result<Group, StoreError> {
    let SlotClaim { limit: name, group } = claim.clone();
    let read = ReadLimitUsage { tenant: tenant.clone(), name, group: Some(group) };
    Ok(store.call(read).await?.groups.first().map(|found| found.state).unwrap_or_default())
}

/// What a run waits for. None: it does not wait for a slot.
pub async fn run_wait(
    store: &StoreReader,
    tenant: &TenantId,
    run: RunId,
    now: Timestamp,
) -> Result<Option<RunWait>, StoreError> {
    let Some(queued) = store.call(ReadQueuedRun { tenant: tenant.clone(), run }).await? else {
        return Ok(None);
    };
    let claim = SlotClaim { limit: queued.waiting.limit.clone(), group: queued.waiting.group.clone() };
    let limits = TenantLimits::read(store, tenant).await?;
    let (rule, group) = (limits.rule(&claim.limit), group(store, tenant, &claim).await?);
    let fullness = queued.quiet.map(Fullness::Quiet).or_else(|| group.fullness(&rule, now));
    let fullness = fullness.unwrap_or(Fullness::Others);
    let blocked = RuledGroup { rule, group, freed: 0 }.blocked(&claim, fullness);
    Ok(Some(RunWait { queued, blocked, pause: limits.pause(&claim.limit).cloned() }))
}
