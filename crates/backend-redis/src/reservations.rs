//! Keys that are reserved under a tenant's admission lock.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::reservations::{Count, ReservationStore, Reserve, Reserved};
use interlock_model::admission::Usage;
use interlock_model::limit::RUNS_MAX_DEFAULT;
use interlock_model::tenant::SlotFlow;
use interlock_model::time::millis;
use interlock_model::{IdempotencyKey, RunId, TenantId, WorkflowId};

use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

impl RedisStore {
    /// What holds for a tenant that says nothing.
    fn runs_max(&self) -> u32 {
        self.link.known().system_limits().0.runs_max.unwrap_or(RUNS_MAX_DEFAULT)
    }
}

#[async_trait]
impl ReservationStore for RedisStore {
    async fn reserve_key(&self, asked: &Reserve) -> Result<Reserved, StoreError> {
        let call = Call::write(&scripts::RESERVE_KEY, "reserve a key", &asked.tenant)
            .under(asked.fence)
            .with(self.runs_max())
            .with(asked.workflow.as_str())
            .with(asked.intent.key.as_str())
            .with(asked.intent.fingerprint.as_str())
            .with(asked.run.to_string())
            .with(asked.fence.number())
            .with(millis(asked.lease));
        self.ask(call, |mut fields| read_reserved(fields.list()?)).await
    }

    async fn release_key(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
        key: &IdempotencyKey,
        run: RunId,
    ) -> Result<bool, StoreError> {
        let call = Call::write(&scripts::RELEASE_KEY, "release a key", tenant);
        let call = call.with(workflow.as_str()).with(key.as_str()).with(run.to_string());
        self.ask(call, |mut fields| Ok(fields.text()? == "1")).await
    }

    async fn count_runs(&self, tenant: &TenantId) -> Result<Count, StoreError> {
        let call = Call::read(&scripts::COUNT_RUNS, "count runs", tenant).with(self.runs_max());
        self.ask(call, |mut fields| {
            let usage = read_usage(&mut fields)?;
            let slot_flow =
                SlotFlow { freed_at: fields.optional_time()?, interval_ms: fields.optional("interval")? };
            Ok(Count { usage, slot_flow })
        })
        .await
    }
}

fn read_usage(fields: &mut Fields) -> Result<Usage, Unreadable> {
    Ok(Usage { runs_active: fields.parsed("count")?, runs_max: fields.parsed("limit")? })
}

fn read_reserved(mut fields: Fields) -> Result<Reserved, Unreadable> {
    let code = fields.text()?;
    if code == "reserved" {
        return Ok(Reserved::Granted);
    }
    let run = fields.parsed("run id")?;
    let usage = read_usage(&mut fields)?;
    match code.as_str() {
        "replayed" => {
            let status = fields.optional_text()?.map(|name| encode::run_status(&name)).transpose()?;
            Ok(Reserved::Replayed { run, status, usage })
        }
        "key_reused" => Ok(Reserved::KeyReused { run, usage }),
        _ => Err(fields.unreadable("reservation")),
    }
}
