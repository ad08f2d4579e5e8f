//! Workers, as they were last seen.

use async_trait::async_trait;
use interlock_backend::workers::{WorkerRecord, WorkerStore};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::{TenantId, Timestamp, WorkerId};

use crate::runs::found;
use crate::script::{Call, Fields, Unreadable};
use crate::scripts;
use crate::store::RedisStore;

#[async_trait]
impl WorkerStore for RedisStore {
    async fn workers(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<WorkerRecord>, StoreError> {
        let call = Call::read(&scripts::WORKERS, "list workers", tenant);
        let call = call.with(page.after.as_deref()).with(page.limit);
        self.ask(call, |fields| fields.page(|item| read_record(item.list()?))).await
    }

    async fn worker(&self, tenant: &TenantId, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        let call = Call::read(&scripts::WORKER, "read a worker", tenant).of("worker", worker);
        found(self.ask(call.with(worker.as_str()), read_record).await)
    }

    async fn drain_worker(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        is_draining: bool,
    ) -> Result<(), StoreError> {
        let call = Call::write(&scripts::DRAIN_WORKER, "drain a worker", tenant).of("worker", worker);
        self.ask(call.with(worker.as_str()).with(is_draining), |_| Ok(())).await
    }

    async fn forget_record(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        unless_after: Timestamp,
    ) -> Result<(), StoreError> {
        let call = Call::write(&scripts::FORGET_RECORD, "forget a worker", tenant);
        self.ask(call.with(worker.as_str()).with(unless_after.as_millis()), |_| Ok(())).await
    }
}

fn read_record(mut fields: Fields) -> Result<WorkerRecord, Unreadable> {
    Ok(WorkerRecord {
        worker: fields.parsed("worker")?,
        topics: fields.json("list of topics")?,
        capabilities: fields.json("list of capabilities")?,
        first_seen_at: fields.time()?,
        last_seen_at: fields.time()?,
        is_draining: fields.optional_text()?.as_deref() == Some("1"),
    })
}
