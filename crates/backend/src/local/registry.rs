//! Workers on NATS.

use interlock_model::lock::{LockName, StageLock};
use interlock_model::{Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

use super::store::look;
use super::store::{Decide, Look};
use super::tables::{Changes, Decided, Decision, Pick, Table, View, parse, read};
use super::{locks, rows};
use crate::StoreError;
use crate::registry::{Beat, Handshake, REGISTRY_MAX, RegisteredWorker, Registry};
use crate::verbs::{
    DrainNatsWorker, ForgetNatsWorker, ReadRegistry, ReadSnapshot, RecordBeat, RegisterNatsWorker,
    SaveSnapshot,
};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handshake: Option<Handshake>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beat: Option<Beat>,
    last_seen_at: Timestamp,
    #[serde(default)]
    is_draining: bool,
}

impl Decide for RegisterNatsWorker {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        // The last beat stays until the next: above all it names the tenant that the worker serves.
        let before = update(view, now, &self.worker, |known| known.handshake = Some(self.handshake.clone()))?;
        Ok(before.map(drop))
    }
}

impl Decide for RecordBeat {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Option<Beat>> {
        let before = update(view, now, &self.worker, |known| known.beat = Some(self.beat.clone()))?;
        Ok(before.map(|before| before.and_then(|before| before.beat)))
    }
}

/// Changes the worker's entry and its time. Returns the entry before.
fn update(
    view: &dyn View,
    now: Timestamp,
    worker: &WorkerId,
    change: impl FnOnce(&mut Entry),
) -> Decided<Option<Entry>> {
    let known: Option<Entry> = read(view, Table::Registry, worker.as_str())?;
    if known.is_none() && all(view)?.len() >= REGISTRY_MAX {
        return Err(StoreError::Conflict(format!("there are {REGISTRY_MAX} workers on the bus already")));
    }
    let mut entry = Entry { last_seen_at: now, ..known.clone().unwrap_or_default() };
    change(&mut entry);
    let mut changes = Changes::default();
    changes.put(Table::Registry, worker.as_str(), &entry);
    Ok(Decision { answer: known, changes })
}

impl Decide for DrainNatsWorker {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        let known: Option<Entry> = read(view, Table::Registry, self.worker.as_str())?;
        let known = known.ok_or_else(|| StoreError::not_found("worker", &self.worker))?;
        let mut changes = Changes::default();
        if known.is_draining != self.is_draining {
            let entry = Entry { is_draining: self.is_draining, ..known };
            changes.put(Table::Registry, self.worker.as_str(), &entry);
        }
        Ok(Decision { answer: (), changes })
    }
}

impl Look for ReadRegistry {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Registry, StoreError> {
        Ok(Registry { now, workers: all(view)? })
    }
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

impl Decide for ForgetNatsWorker {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        let known: Option<Entry> = read(view, Table::Registry, self.worker.as_str())?;
        let mut changes = Changes::default();
        if known.is_some_and(|entry| entry.last_seen_at <= self.unless_after) {
            changes.delete(Table::Registry, self.worker.as_str());
        }
        Ok(Decision { answer: (), changes })
    }
}

impl Decide for SaveSnapshot {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        let writer = LockName::Stage(StageLock::SnapshotWriter);
        locks::check_fence(view, now, &writer, self.fence)?;
        let mut changes = Changes::default();
        changes.put(Table::System, rows::WORKERS_SNAPSHOT, &self.snapshot);
        Ok(Decision { answer: (), changes })
    }
}

look!(ReadSnapshot, |_verb, view| read(view, Table::System, rows::WORKERS_SNAPSHOT));
