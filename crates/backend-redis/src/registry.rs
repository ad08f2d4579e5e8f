//! Workers on NATS, as they last reported. They belong to no tenant.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::registry::{Beat, Handshake, REGISTRY_MAX, RegisteredWorker, Registry};
use interlock_backend::verbs::{
    DrainNatsWorker, ForgetNatsWorker, ReadRegistry, ReadSnapshot, RecordBeat, RegisterNatsWorker,
    SaveSnapshot,
};
use interlock_model::lock::{LockName, StageLock};
use interlock_model::{Timestamp, WorkerId};
use serde::de::DeserializeOwned;

use crate::client::ScriptClient;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Home, Script, script};
use crate::store::Scripted;
use crate::{encode, locks};

/// Under whose lock the snapshot is written.
const SNAPSHOT_WRITER: StageLock = StageLock::SnapshotWriter;

/// Where people look for the snapshot. On a Cluster it must be on the node of its writer's lock.
fn snapshot_key(client: &ScriptClient) -> String {
    let connection = client.connection();
    let name = format!("{}sys:workers:snapshot", connection.key_prefix());
    if connection.is_cluster() {
        return format!("{name}:{{{}{}}}", connection.lock_prefix(), SNAPSHOT_WRITER.key());
    }
    name
}

impl Scripted for RegisterNatsWorker {
    fn script() -> &'static Script {
        script!("register_nats_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System)
            .with("worker", &self.worker)
            .with("handshake", encode::json(&self.handshake))
            .with("workers_max", REGISTRY_MAX)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for RecordBeat {
    fn script() -> &'static Script {
        script!("record_beat")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System)
            .with("worker", &self.worker)
            .with("beat", encode::json(&self.beat))
            .with("workers_max", REGISTRY_MAX)
    }

    /// If the beat before is damaged, this one still counts.
    fn read(&self, mut reply: Reply) -> Result<Option<Beat>, Unreadable> {
        Ok(reply.json("before").ok())
    }
}

impl Scripted for DrainNatsWorker {
    fn script() -> &'static Script {
        script!("drain_nats_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System)
            .of("worker", &self.worker)
            .with("worker", &self.worker)
            .with("is_draining", self.is_draining)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for ReadRegistry {
    fn script() -> &'static Script {
        script!("read_registry")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System)
    }

    fn read(&self, mut reply: Reply) -> Result<Registry, Unreadable> {
        let mut handshakes = read_by_worker::<Handshake>(&mut reply, "handshakes")?;
        let mut beats = read_by_worker::<Beat>(&mut reply, "beats")?;
        let draining: Vec<WorkerId> = reply.each("draining", |worker| worker.into_parsed("worker"))?;
        let draining = BTreeSet::from_iter(draining);
        let mut workers = reply.pairs("seen", |worker, seen_at| {
            let worker: WorkerId = worker.into_parsed("worker")?;
            Ok(RegisteredWorker {
                handshake: handshakes.remove(&worker),
                beat: beats.remove(&worker),
                is_draining: draining.contains(&worker),
                worker,
                last_seen_at: Timestamp::from_millis(seen_at.into_parsed("time")?),
            })
        })?;
        workers.sort_unstable_by(|one, other| one.worker.cmp(&other.worker));
        Ok(Registry { now: reply.time("now")?, workers })
    }
}

impl Scripted for SaveSnapshot {
    fn script() -> &'static Script {
        script!("save_snapshot")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        locks::call::<Self>(Self::script(), &LockName::Stage(SNAPSHOT_WRITER))
            .under(self.fence)
            .with("name", snapshot_key(client))
            .with("fence", self.fence)
            .with("snapshot", &self.snapshot)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for ReadSnapshot {
    fn script() -> &'static Script {
        script!("read_snapshot")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        Call::to::<Self>(Home::Stage(SNAPSHOT_WRITER)).with("name", snapshot_key(client))
    }

    fn read(&self, mut reply: Reply) -> Result<Option<String>, Unreadable> {
        reply.optional_text("snapshot")
    }
}

impl Scripted for ForgetNatsWorker {
    fn script() -> &'static Script {
        script!("forget_nats_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(Home::System).with("worker", &self.worker).with("unless_after", self.unless_after)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

fn read_by_worker<T: DeserializeOwned>(
    reply: &mut Reply,
    name: &str,
) -> Result<BTreeMap<WorkerId, T>, Unreadable> {
    let found = reply
        .pairs(name, |worker, document| Ok((worker.into_parsed("worker")?, document.into_json(name)?)))?;
    Ok(found.into_iter().collect())
}
