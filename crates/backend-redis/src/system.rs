//! What belongs to no tenant: documents, figures of rollouts, API keys, workers on NATS.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::keys::{ApiKey, KeyScope};
use interlock_backend::registry::{Beat, Handshake, RegisteredWorker, Registry};
use interlock_backend::verbs::{
    CreateApiKey, ListApiKeys, ReadDocument, ReadFigures, ReadRegistry, ReadSnapshot, RecordBeat,
    RotateApiKey, SaveDocument, SaveFigures, SaveSnapshot,
};
use interlock_backend::{StoreError, Verb as _};
use interlock_model::lock::{LockName, StageLock};
use interlock_model::{InstanceId, TenantId, Timestamp, WorkerId};
use serde::Deserialize;

use crate::encode;
use crate::reply::{Unreadable, Value, damaged};
use crate::script::{Arguments, Home};
use crate::store::{Addressed, Execute, RedisStore, Scripted};

/// Every process reads it twice a second, and it changes once a week.
impl Scripted for ReadDocument {
    const IS_POLL: bool = true;
}

impl Scripted for SaveDocument {
    fn check(&self) -> Result<(), StoreError> {
        self.check()
    }
}

impl Scripted for SaveFigures {
    fn check(&self) -> Result<(), StoreError> {
        self.check()
    }
}

impl Scripted for ReadFigures {
    const IS_POLL: bool = true;

    fn read(&self, reply: Value<'_>) -> Result<Vec<(InstanceId, String)>, Unreadable> {
        Ok(BTreeMap::deserialize(reply)?.into_iter().collect())
    }
}

/// The tenant whose bound a key counts towards.
fn tenant_of(key: &ApiKey) -> Option<&TenantId> {
    match &key.scope {
        KeyScope::Tenant(tenant) => Some(tenant),
        KeyScope::All => None,
    }
}

impl Scripted for CreateApiKey {
    fn arguments(&self) -> Vec<u8> {
        let arguments = Arguments::default().with("id", &self.key.id).with("tenant", tenant_of(&self.key));
        arguments.with("document", encode::json(&self.key)).packed()
    }

    fn read(&self, reply: Value<'_>) -> Result<ApiKey, Unreadable> {
        Ok(ApiKey { created_at: Timestamp::deserialize(reply)?, ..self.key.clone() })
    }
}

impl Scripted for RotateApiKey {
    fn arguments(&self) -> Vec<u8> {
        let new = ApiKey { replaces: Some(self.id.clone()), ..self.key.clone() };
        let arguments = Arguments::default().with("id", &self.id).with("new_id", &new.id);
        let arguments = arguments.with("ends_at", self.ends_at).with("tenant", tenant_of(&new));
        arguments.with("document", encode::json(&new)).packed()
    }

    fn read(&self, reply: Value<'_>) -> Result<ApiKey, Unreadable> {
        let replaces = Some(self.id.clone());
        Ok(ApiKey { created_at: Timestamp::deserialize(reply)?, replaces, ..self.key.clone() })
    }
}

impl Execute for ListApiKeys {
    /// Without a script: there may be megabytes of them, and to make texts of Lua of those takes Redis milliseconds.
    async fn execute(self, store: &RedisStore) -> Result<Vec<ApiKey>, StoreError> {
        let client = &store.client;
        let reply =
            client.read(Self::ACTION, &redis::cmd("HVALS").arg(client.system_key("sys:keys")).take()).await?;
        let unreadable = |reason: String| damaged(Self::NAME, reason);
        let texts: Vec<String> =
            redis::from_redis_value(reply).map_err(|error| unreadable(error.to_string()))?;
        let keys: Result<Vec<ApiKey>, _> = texts.iter().map(|text| read_key(text)).collect();
        let mut keys = keys.map_err(|error| unreadable(error.to_string()))?;
        keys.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(keys)
    }
}

/// A key as `lua/create_api_key.lua` writes it: the store's time stands before it.
fn read_key(text: &str) -> Result<ApiKey, Unreadable> {
    let read = |(created_at, document): (&str, &str)| {
        let created_at = Timestamp::from_millis(created_at.parse().ok()?);
        let key: ApiKey = serde_json::from_str(document).ok()?;
        Some(ApiKey { created_at, ..key })
    };
    text.split_once(' ').and_then(read).ok_or_else(|| Unreadable("an API key is damaged".to_owned()))
}

impl Scripted for RecordBeat {
    /// If the beat before is damaged, this one still counts.
    fn read(&self, reply: Value<'_>) -> Result<Option<Beat>, Unreadable> {
        Ok(Option::deserialize(reply).unwrap_or_default())
    }
}

impl Scripted for ReadRegistry {
    fn read(&self, reply: Value<'_>) -> Result<Registry, Unreadable> {
        #[derive(Deserialize)]
        struct Reply {
            now: Timestamp,
            seen: BTreeMap<WorkerId, Timestamp>,
            handshakes: BTreeMap<WorkerId, Handshake>,
            beats: BTreeMap<WorkerId, Beat>,
            draining: BTreeSet<WorkerId>,
        }
        let Reply { now, seen, mut handshakes, mut beats, draining } = Reply::deserialize(reply)?;
        let workers = seen.into_iter().map(|(worker, last_seen_at)| RegisteredWorker {
            handshake: handshakes.remove(&worker),
            beat: beats.remove(&worker),
            is_draining: draining.contains(&worker),
            worker,
            last_seen_at,
        });
        Ok(Registry { now, workers: workers.collect() })
    }
}

/// The snapshot of the workers is written under the lock of its writer, and is on the same node.
fn snapshot() -> Home {
    Home::Lock(LockName::Stage(StageLock::SnapshotWriter))
}

impl Addressed for SaveSnapshot {
    fn home(&self) -> Home {
        snapshot()
    }
}

impl Scripted for SaveSnapshot {}

impl Addressed for ReadSnapshot {
    fn home(&self) -> Home {
        snapshot()
    }
}

impl Scripted for ReadSnapshot {}
