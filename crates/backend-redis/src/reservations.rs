//! Idempotency keys that are reserved under a tenant's admission lock.

use interlock_backend::reservations::{Count, Reserved};
use interlock_backend::verbs::{CountRuns, ReleaseIdempotencyKey, ReserveIdempotencyKey};
use interlock_model::admission::Usage;
use interlock_model::limit::RUNS_MAX_DEFAULT;
use interlock_model::tenant::SlotFlow;

use crate::client::ScriptClient;
use crate::encode;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

/// For tenants without a limit of their own.
pub(crate) fn runs_max(client: &ScriptClient) -> u32 {
    client.known().system_limits().0.runs_max.unwrap_or(RUNS_MAX_DEFAULT)
}

impl Scripted for ReserveIdempotencyKey {
    fn script() -> &'static Script {
        script!("reserve_idempotency_key")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .under(self.fence)
            .with("runs_max", runs_max(client))
            .with("workflow", &self.workflow)
            .with("key", &self.intent.key)
            .with("fingerprint", &self.intent.fingerprint)
            .with("run", self.run)
            .with("fence", self.fence)
            .with("lease", self.lease)
    }

    fn read(&self, mut reply: Reply) -> Result<Reserved, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "reserved" => Ok(Reserved::Granted),
            "replayed" => Ok(Reserved::Replayed {
                run: reply.parsed("run")?,
                status: read_status(&mut reply)?,
                usage: read_usage(&mut reply)?,
            }),
            "key_reused" => {
                Ok(Reserved::KeyReused { run: reply.parsed("run")?, usage: read_usage(&mut reply)? })
            }
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

impl Scripted for ReleaseIdempotencyKey {
    fn script() -> &'static Script {
        script!("release_idempotency_key")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .with("workflow", &self.workflow)
            .with("key", &self.key)
            .with("run", self.run)
    }

    fn read(&self, mut reply: Reply) -> Result<bool, Unreadable> {
        Ok(reply.flag("is_released"))
    }
}

impl Scripted for CountRuns {
    fn script() -> &'static Script {
        script!("count_runs")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("runs_max", runs_max(client))
    }

    fn read(&self, mut reply: Reply) -> Result<Count, Unreadable> {
        Ok(Count { usage: read_usage(&mut reply)?, slot_flow: read_slot_flow(&mut reply)? })
    }
}

/// As `lua/shared/usage.lua` names it.
pub(crate) fn read_usage(reply: &mut Reply) -> Result<Usage, Unreadable> {
    Ok(Usage { runs_active: reply.parsed("runs_active")?, runs_max: reply.parsed("runs_max")? })
}

pub(crate) fn read_slot_flow(reply: &mut Reply) -> Result<SlotFlow, Unreadable> {
    Ok(SlotFlow { freed_at: reply.optional_time("freed_at")?, interval_ms: reply.optional("interval_ms")? })
}

/// Of a run that may be deleted.
pub(crate) fn read_status(reply: &mut Reply) -> Result<Option<interlock_model::run::RunStatus>, Unreadable> {
    reply.optional_text("status")?.map(|name| encode::run_status(&name)).transpose()
}
