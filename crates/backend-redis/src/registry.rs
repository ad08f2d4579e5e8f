//! Workers on the bus, as they last spoke. They belong to no tenant.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::registry::{Beat, Handshake, REGISTRY_MAX, RegisteredWorker, Registry, RegistryStore};
use interlock_model::lock::{LockName, StageLock};
use interlock_model::{Fence, Timestamp, WorkerId};
use serde::de::DeserializeOwned;

use crate::script::{Call, Fields, Home, Unreadable};
use crate::store::RedisStore;
use crate::{encode, locks, scripts};

/// Under whose lock the snapshot is written.
const SNAPSHOT_WRITER: StageLock = StageLock::SnapshotWriter;

impl RedisStore {
    /// Where people look for the snapshot. On a Cluster it must be on the node of its writer's lock.
    fn snapshot_key(&self) -> String {
        let connection = self.link.connection();
        let name = format!("{}sys:workers:snapshot", connection.key_prefix());
        if connection.is_cluster() {
            return format!("{name}:{{{}{}}}", connection.lock_prefix(), SNAPSHOT_WRITER.key());
        }
        name
    }
}

#[async_trait]
impl RegistryStore for RedisStore {
    async fn introduce(&self, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError> {
        let call = Call::global(&scripts::INTRODUCE, "introduce a worker", true);
        let call = call.with(worker.as_str()).with(encode::json(handshake)).with(REGISTRY_MAX);
        self.ask(call, |_| Ok(())).await
    }

    async fn beat(&self, worker: &WorkerId, beat: &Beat) -> Result<Option<Beat>, StoreError> {
        let call = Call::global(&scripts::BEAT, "hear a worker", true);
        let call = call.with(worker.as_str()).with(encode::json(beat)).with(REGISTRY_MAX);
        // Should what it said before be damaged, what it says now counts.
        let read = |text: String| serde_json::from_str(&text).ok();
        self.ask(call, |mut fields| Ok(fields.optional_text()?.and_then(read))).await
    }

    async fn drain(&self, worker: &WorkerId, is_draining: bool) -> Result<(), StoreError> {
        let call = Call::global(&scripts::DRAIN, "drain a worker", true).of("worker", worker);
        self.ask(call.with(worker.as_str()).with(is_draining), |_| Ok(())).await
    }

    async fn registry(&self) -> Result<Registry, StoreError> {
        self.ask(Call::global(&scripts::REGISTRY, "list workers on the bus", false), read_registry).await
    }

    async fn save_snapshot(&self, fence: Fence, snapshot: &str) -> Result<(), StoreError> {
        let writer = LockName::Stage(SNAPSHOT_WRITER);
        let call = locks::call(&scripts::SAVE_SNAPSHOT, "save the snapshot of the workers", &writer);
        let call = call.under(fence).with(self.snapshot_key()).with(fence.number()).with(snapshot);
        self.ask(call, |_| Ok(())).await
    }

    async fn snapshot(&self) -> Result<Option<String>, StoreError> {
        let action = "read the snapshot of the workers";
        let call = Call::new(&scripts::SNAPSHOT, action, Home::Stage(SNAPSHOT_WRITER)).reading();
        self.ask(call.with(self.snapshot_key()), |mut fields| fields.optional_text()).await
    }

    async fn forget_worker(&self, worker: &WorkerId, unless_after: Timestamp) -> Result<(), StoreError> {
        let call = Call::global(&scripts::FORGET_WORKER, "forget a worker", true);
        self.ask(call.with(worker.as_str()).with(unless_after.as_millis()), |_| Ok(())).await
    }
}

fn read_registry(mut fields: Fields) -> Result<Registry, Unreadable> {
    let now = fields.time()?;
    let seen = fields.list()?.each(|seen| Ok((seen.parsed("worker")?, seen.time()?)))?;
    let mut handshakes = read_said::<Handshake>(fields.list()?, "handshake")?;
    let mut beats = read_said::<Beat>(fields.list()?, "beat")?;
    let draining: BTreeSet<WorkerId> =
        fields.list()?.each(|worker| worker.parsed("worker"))?.into_iter().collect();
    let mut workers: Vec<RegisteredWorker> = seen
        .into_iter()
        .map(|(worker, last_seen_at)| RegisteredWorker {
            handshake: handshakes.remove(&worker),
            beat: beats.remove(&worker),
            is_draining: draining.contains(&worker),
            worker,
            last_seen_at,
        })
        .collect();
    workers.sort_unstable_by(|one, other| one.worker.cmp(&other.worker));
    Ok(Registry { now, workers })
}

/// What each worker said, by its name.
fn read_said<T: DeserializeOwned>(fields: Fields, what: &str) -> Result<BTreeMap<WorkerId, T>, Unreadable> {
    let said = fields.each(|said| Ok((said.parsed("worker")?, said.json(what)?)))?;
    Ok(said.into_iter().collect())
}
