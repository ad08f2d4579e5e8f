//! When and how each worker was last seen.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::{TenantId, Timestamp, WorkerId};

use super::rows;
use super::runs::{fill_page, page_end};
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, read};
use crate::jobs::Claim;
use crate::workers::{WorkerRecord, WorkerStore};
use crate::{Page, PageRequest, StoreError};

/// A worker that asks ten times a second is written down once.
const FRESH: Duration = Duration::from_secs(1);

/// Writes down that the worker claims. Returns what is known of it now.
pub(super) fn seen(
    view: &dyn View,
    changes: &mut Changes,
    claim: &Claim,
    now: Timestamp,
) -> Result<WorkerRecord, StoreError> {
    let key = rows::worker(&claim.tenant, &claim.worker);
    let before: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
    let is_same = |before: &WorkerRecord| {
        before.topics == claim.topics
            && before.capabilities == claim.capabilities
            && now.since(before.last_seen_at) < FRESH
    };
    if let Some(known) = before.as_ref().filter(|before| is_same(before)) {
        return Ok(known.clone());
    }
    let record = WorkerRecord {
        worker: claim.worker.clone(),
        topics: claim.topics.clone(),
        capabilities: claim.capabilities.clone(),
        first_seen_at: before.as_ref().map_or(now, |before| before.first_seen_at),
        last_seen_at: now,
        is_draining: before.is_some_and(|before| before.is_draining),
    };
    changes.put(Table::Workers, key, &record);
    Ok(record)
}

/// A heartbeat of a worker that is too busy to claim.
pub(super) fn heard(
    view: &dyn View,
    changes: &mut Changes,
    (id, worker): (&TenantId, &WorkerId),
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = rows::worker(id, worker);
    let known: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
    if let Some(stale) = known.filter(|known| now.since(known.last_seen_at) >= FRESH) {
        changes.put(Table::Workers, key, &WorkerRecord { last_seen_at: now, ..stale });
    }
    Ok(())
}

fn drain(
    view: &dyn View,
    id: &TenantId,
    worker: &WorkerId,
    is_draining: bool,
) -> Result<Decision<()>, StoreError> {
    let key = rows::worker(id, worker);
    let known: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
    let known = known.ok_or_else(|| StoreError::not_found("worker", worker))?;
    let mut changes = Changes::default();
    if known.is_draining != is_draining {
        changes.put(Table::Workers, key, &WorkerRecord { is_draining, ..known });
    }
    Ok(Decision { answer: (), changes })
}

fn forget(
    view: &dyn View,
    id: &TenantId,
    worker: &WorkerId,
    unless_after: Timestamp,
) -> Result<Decision<()>, StoreError> {
    let key = rows::worker(id, worker);
    let known: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
    let mut changes = Changes::default();
    if known.is_some_and(|known| known.last_seen_at <= unless_after) {
        changes.delete(Table::Workers, key);
    }
    Ok(Decision { answer: (), changes })
}

fn list(view: &dyn View, id: &TenantId, page: &PageRequest) -> Result<Page<WorkerRecord>, StoreError> {
    let until = page_end(id, page);
    let limit = page.limit.saturating_add(1);
    let rows = view.scan(Table::Workers, &rows::of_tenant(id), &until, Pick::Last(limit))?;
    let keys: Vec<String> = rows.into_iter().map(|row| row.key).collect();
    fill_page(keys, page.limit, |key| read(view, Table::Workers, key))
}

#[async_trait]
impl<E: Executor> WorkerStore for LocalStore<E> {
    async fn workers(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<WorkerRecord>, StoreError> {
        let (tenant, page) = (tenant.clone(), page.clone());
        self.read("list workers", move |view, _| list(view, &tenant, &page)).await
    }

    async fn worker(&self, tenant: &TenantId, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        let key = rows::worker(tenant, worker);
        self.read("read a worker", move |view, _| read(view, Table::Workers, &key)).await
    }

    async fn drain_worker(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        is_draining: bool,
    ) -> Result<(), StoreError> {
        let (tenant, worker) = (tenant.clone(), worker.clone());
        let decide = move |view: &dyn View, _| drain(view, &tenant, &worker, is_draining);
        self.write("drain a worker", decide).await
    }

    async fn forget_record(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        unless_after: Timestamp,
    ) -> Result<(), StoreError> {
        let (tenant, worker) = (tenant.clone(), worker.clone());
        let decide = move |view: &dyn View, _| forget(view, &tenant, &worker, unless_after);
        self.write("forget a worker", decide).await
    }
}
