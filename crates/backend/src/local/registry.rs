//! Workers on the bus.

use async_trait::async_trait;
use interlock_model::lock::{LockName, StageLock};
use interlock_model::{Fence, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, parse, read};
use super::{locks, rows};
use crate::StoreError;
use crate::registry::{Beat, Handshake, REGISTRY_MAX, RegisteredWorker, Registry, RegistryStore};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handshake: Option<Handshake>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beat: Option<Beat>,
    last_seen_at: Timestamp,
    #[serde(default)]
    is_draining: bool,
}

impl Entry {
    /// One that has said nothing yet.
    fn fresh(now: Timestamp) -> Self {
        Self { handshake: None, beat: None, last_seen_at: now, is_draining: false }
    }
}

fn introduce(
    view: &dyn View,
    now: Timestamp,
    worker: &WorkerId,
    handshake: Handshake,
) -> Result<Decision<()>, StoreError> {
    // What it last said about itself stays until it says something else: above all which tenant it serves.
    let Decision { answer: _, changes } = hear(view, now, worker, |known| known.handshake = Some(handshake))?;
    Ok(Decision { answer: (), changes })
}

fn hear_beat(
    view: &dyn View,
    now: Timestamp,
    worker: &WorkerId,
    beat: Beat,
) -> Result<Decision<Option<Beat>>, StoreError> {
    let Decision { answer, changes } = hear(view, now, worker, |known| known.beat = Some(beat))?;
    Ok(Decision { answer: answer.and_then(|before| before.beat), changes })
}

/// Changes what is known of the worker, and when it was heard. Returns what was known before.
fn hear(
    view: &dyn View,
    now: Timestamp,
    worker: &WorkerId,
    say: impl FnOnce(&mut Entry),
) -> Result<Decision<Option<Entry>>, StoreError> {
    let known: Option<Entry> = read(view, Table::Registry, worker.as_str())?;
    if known.is_none() && all(view)?.len() >= REGISTRY_MAX {
        return Err(StoreError::Conflict(format!("there are {REGISTRY_MAX} workers on the bus already")));
    }
    let mut heard = Entry { last_seen_at: now, ..known.clone().unwrap_or_else(|| Entry::fresh(now)) };
    say(&mut heard);
    let mut changes = Changes::default();
    changes.put(Table::Registry, worker.as_str(), &heard);
    Ok(Decision { answer: known, changes })
}

fn drain(view: &dyn View, worker: &WorkerId, is_draining: bool) -> Result<Decision<()>, StoreError> {
    let known: Option<Entry> = read(view, Table::Registry, worker.as_str())?;
    let known = known.ok_or_else(|| StoreError::not_found("worker", worker))?;
    let mut changes = Changes::default();
    if known.is_draining != is_draining {
        changes.put(Table::Registry, worker.as_str(), &Entry { is_draining, ..known });
    }
    Ok(Decision { answer: (), changes })
}

fn look(view: &dyn View, now: Timestamp) -> Result<Registry, StoreError> {
    Ok(Registry { now, workers: all(view)? })
}

fn all(view: &dyn View) -> Result<Vec<RegisteredWorker>, StoreError> {
    let mut workers = Vec::new();
    for row in view.scan(Table::Registry, "", "~", Pick::First(REGISTRY_MAX))? {
        let Ok(worker) = rows::last_part(&row.key).parse() else { continue };
        let Entry { handshake, beat, last_seen_at, is_draining } =
            parse(Table::Registry, &row.key, &row.value)?;
        workers.push(RegisteredWorker { worker, handshake, beat, last_seen_at, is_draining });
    }
    Ok(workers)
}

fn forget(view: &dyn View, worker: &WorkerId, unless_after: Timestamp) -> Result<Decision<()>, StoreError> {
    let known: Option<Entry> = read(view, Table::Registry, worker.as_str())?;
    let mut changes = Changes::default();
    if known.is_some_and(|entry| entry.last_seen_at <= unless_after) {
        changes.delete(Table::Registry, worker.as_str());
    }
    Ok(Decision { answer: (), changes })
}

fn save_snapshot(
    view: &dyn View,
    now: Timestamp,
    fence: Fence,
    snapshot: &str,
) -> Result<Decision<()>, StoreError> {
    let writer = LockName::Stage(StageLock::SnapshotWriter);
    let current = locks::fence_in_force(view, now, &writer)?;
    if current.is_live && current.fence == fence {
        let mut changes = Changes::default();
        changes.put(Table::System, rows::WORKERS_SNAPSHOT, &snapshot);
        return Ok(Decision { answer: (), changes });
    }
    Err(StoreError::Fenced { held: fence, current: current.fence })
}

#[async_trait]
impl<E: Executor> RegistryStore for LocalStore<E> {
    async fn introduce(&self, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError> {
        let (worker, handshake) = (worker.clone(), handshake.clone());
        let decide = move |view: &dyn View, now| introduce(view, now, &worker, handshake);
        self.write("introduce a worker", decide).await
    }

    async fn beat(&self, worker: &WorkerId, beat: &Beat) -> Result<Option<Beat>, StoreError> {
        let (worker, beat) = (worker.clone(), beat.clone());
        let decide = move |view: &dyn View, now| hear_beat(view, now, &worker, beat);
        self.write("hear a worker", decide).await
    }

    async fn drain(&self, worker: &WorkerId, is_draining: bool) -> Result<(), StoreError> {
        let worker = worker.clone();
        self.write("drain a worker", move |view: &dyn View, _| drain(view, &worker, is_draining)).await
    }

    async fn registry(&self) -> Result<Registry, StoreError> {
        self.read("list workers on the bus", move |view, now| look(view, now)).await
    }

    async fn save_snapshot(&self, fence: Fence, snapshot: &str) -> Result<(), StoreError> {
        let snapshot = snapshot.to_owned();
        let decide = move |view: &dyn View, now| save_snapshot(view, now, fence, &snapshot);
        self.write("save the snapshot of the workers", decide).await
    }

    async fn snapshot(&self) -> Result<Option<String>, StoreError> {
        self.read("read the snapshot of the workers", move |view, _| {
            read(view, Table::System, rows::WORKERS_SNAPSHOT)
        })
        .await
    }

    async fn forget_worker(&self, worker: &WorkerId, unless_after: Timestamp) -> Result<(), StoreError> {
        let worker = worker.clone();
        let decide = move |view: &dyn View, _| forget(view, &worker, unless_after);
        self.write("forget a worker", decide).await
    }
}
