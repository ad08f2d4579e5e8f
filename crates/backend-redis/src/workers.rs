//! Workers on HTTP, as they were last seen.

use interlock_backend::Page;
use interlock_backend::verbs::{DrainWorker, ForgetWorker, ListWorkers, ReadWorker};
use interlock_backend::workers::WorkerRecord;

use crate::client::ScriptClient;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for ListWorkers {
    fn script() -> &'static Script {
        script!("list_workers")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).page(&self.page)
    }

    fn read(&self, reply: Reply) -> Result<Page<WorkerRecord>, Unreadable> {
        reply.page(read_record)
    }
}

impl Scripted for ReadWorker {
    fn script() -> &'static Script {
        script!("read_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("worker", &self.worker)
    }

    fn read(&self, reply: Reply) -> Result<Option<WorkerRecord>, Unreadable> {
        reply.when_found(read_record)
    }
}

impl Scripted for DrainWorker {
    fn script() -> &'static Script {
        script!("drain_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("worker", &self.worker)
            .with("worker", &self.worker)
            .with("is_draining", self.is_draining)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for ForgetWorker {
    fn script() -> &'static Script {
        script!("forget_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("worker", &self.worker).with("unless_after", self.unless_after)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

fn read_record(mut record: Reply) -> Result<WorkerRecord, Unreadable> {
    Ok(WorkerRecord {
        worker: record.parsed("worker")?,
        topics: record.json("topics")?,
        capabilities: record.json("capabilities")?,
        first_seen_at: record.time("first_seen_at")?,
        last_seen_at: record.time("last_seen_at")?,
        is_draining: record.optional_text("is_draining")?.as_deref() == Some("1"),
    })
}
