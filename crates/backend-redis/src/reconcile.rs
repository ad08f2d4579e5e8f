//! What the slow loops do to one tenant at a time.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::reconcile::{LOOKED_AT_MAX, ReconcileStore, Replayed, Retire, Retired, SlotDrift};
use interlock_model::job::JobLease;
use interlock_model::time::millis;
use interlock_model::{JobId, RunId, TenantId};

use crate::jobs::read_lease;
use crate::script::{Call, Fields};
use crate::scripts;
use crate::store::RedisStore;

#[async_trait]
impl ReconcileStore for RedisStore {
    async fn leases_run_out(
        &self,
        tenant: &TenantId,
        limit: usize,
    ) -> Result<Vec<(JobId, JobLease)>, StoreError> {
        let call = Call::read(&scripts::LEASES_RUN_OUT, "look for leases that have run out", tenant);
        let read = |item: &mut Fields| {
            let mut item = item.list()?;
            let job = item.parsed("job id")?;
            Ok(read_lease(&mut item)?.map(|lease| (job, lease)))
        };
        let found = self.ask(call.with(limit), |mut fields| fields.list()?.each(read)).await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn replay(&self, tenant: &TenantId, limit: usize) -> Result<Replayed, StoreError> {
        let call = Call::write(&scripts::REPLAY, "replay waiting jobs", tenant).with(limit);
        self.ask(call, |mut fields| {
            let waiting = fields.list()?.each(|topic| topic.parsed("topic"))?;
            let put_back = fields.list()?.each(|job| job.parsed("job id"))?;
            Ok(Replayed { waiting, put_back })
        })
        .await
    }

    async fn mend_slots(
        &self,
        tenant: &TenantId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<SlotDrift, StoreError> {
        let call = Call::write(&scripts::MEND_SLOTS, "compare slots with runs", tenant);
        let call = call.with(after.map(|run| run.to_string())).with(limit).with(LOOKED_AT_MAX);
        self.ask(call, |mut fields| {
            let (found, mended) = (fields.parsed("count")?, fields.parsed("count")?);
            Ok(SlotDrift { found, mended, next: fields.optional("run id")? })
        })
        .await
    }

    /// Idempotency keys end by themselves here.
    async fn retire(&self, tenant: &TenantId, asked: &Retire) -> Result<Retired, StoreError> {
        let call = Call::write(&scripts::RETIRE, "remove what is unused", tenant);
        let call = call.with(millis(asked.unused_for)).with(asked.limit).with(LOOKED_AT_MAX);
        self.ask(call, |mut fields| {
            let (workers, deleted_runs) = (fields.parsed("count")?, fields.parsed("count")?);
            Ok(Retired { workers, deleted_runs, keys: 0, next: None })
        })
        .await
    }
}
