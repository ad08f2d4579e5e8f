//! When and how each worker was last seen.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::{TenantId, Timestamp, WorkerId};

use super::rows;
use super::runs::{fill_page, page_end};
use super::store::LocalStore;
use super::tables::{Changes, Executor, Pick, Table, View, read};
use crate::jobs::Claim;
use crate::workers::{WorkerRecord, WorkerStore};
use crate::{Page, PageRequest, StoreError};

/// A worker that asks ten times a second is written down once.
const FRESH: Duration = Duration::from_secs(1);

pub(super) fn seen(
    view: &dyn View,
    changes: &mut Changes,
    claim: &Claim,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = rows::worker(&claim.tenant, &claim.worker);
    let before: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
    let is_same = |before: &WorkerRecord| {
        before.topics == claim.topics
            && before.capabilities == claim.capabilities
            && now.since(before.last_seen_at) < FRESH
    };
    if before.as_ref().is_some_and(is_same) {
        return Ok(());
    }
    let record = WorkerRecord {
        worker: claim.worker.clone(),
        topics: claim.topics.clone(),
        capabilities: claim.capabilities.clone(),
        first_seen_at: before.map_or(now, |before| before.first_seen_at),
        last_seen_at: now,
    };
    changes.put(Table::Workers, key, &record);
    Ok(())
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
}
