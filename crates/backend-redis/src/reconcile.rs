//! What the slow loops do to one tenant at a time.

use interlock_backend::reconcile::{LOOKED_AT_MAX, RequeuedJobs, Retired, SlotDrift};
use interlock_backend::verbs::{ListExpiredLeases, RepairSlots, RequeueJobs, Retire};
use interlock_model::JobId;
use interlock_model::job::JobLease;

use crate::client::ScriptClient;
use crate::jobs::read_lease;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for ListExpiredLeases {
    fn script() -> &'static Script {
        script!("list_expired_leases")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<(JobId, JobLease)>, Unreadable> {
        let found = reply.each("leases", |mut item| {
            let job = item.parsed("job")?;
            Ok(read_lease(&mut item)?.map(|lease| (job, lease)))
        })?;
        Ok(found.into_iter().flatten().collect())
    }
}

impl Scripted for RequeueJobs {
    fn script() -> &'static Script {
        script!("requeue_jobs")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<RequeuedJobs, Unreadable> {
        let waiting = reply.each("waiting", |topic| topic.into_parsed("topic"))?;
        let put_back = reply.each("put_back", |job| job.into_parsed("job"))?;
        Ok(RequeuedJobs { waiting, put_back })
    }
}

impl Scripted for RepairSlots {
    fn script() -> &'static Script {
        script!("repair_slots")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .with("after", self.after)
            .with("limit", self.limit)
            .with("slots_max", LOOKED_AT_MAX)
    }

    fn read(&self, mut reply: Reply) -> Result<SlotDrift, Unreadable> {
        Ok(SlotDrift {
            found: reply.parsed("found")?,
            repaired: reply.parsed("repaired")?,
            next: reply.optional("next_page")?,
        })
    }
}

/// Idempotency keys expire by themselves here.
impl Scripted for Retire {
    fn script() -> &'static Script {
        script!("retire")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .with("unused_for", self.unused_for)
            .with("limit", self.limit)
            .with("looked_at_max", LOOKED_AT_MAX)
    }

    fn read(&self, mut reply: Reply) -> Result<Retired, Unreadable> {
        let (workers, deleted_runs) = (reply.parsed("workers")?, reply.parsed("deleted_runs")?);
        Ok(Retired { workers, deleted_runs, keys: 0, next: None })
    }
}
