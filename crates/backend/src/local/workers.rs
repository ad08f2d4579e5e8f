//! Workers on HTTP, as they were last seen.

use std::time::Duration;

use interlock_model::{Timestamp, WorkerId};

use super::draft::Draft;
use super::rows;
use super::store::{Decide, Look};
use super::tables::{Changes, Decided, Decision, Table, View, newest_page, read};
use crate::jobs::Claim;
use crate::verbs::{DrainWorker, ForgetWorker, ListWorkers, ReadWorker};
use crate::workers::WorkerRecord;
use crate::{Page, StoreError};

/// A worker that claims ten times a second is written once in this time.
const FRESH: Duration = Duration::from_secs(1);

impl Draft<'_> {
    /// Records that the worker claims. Returns what is known of it now.
    pub(super) fn see_worker(&mut self, claim: &Claim) -> Result<WorkerRecord, StoreError> {
        let (key, now) = (rows::worker(&claim.tenant, &claim.worker), self.now);
        let before: Option<WorkerRecord> = self.read(Table::Workers, &key)?;
        let is_same = |before: &WorkerRecord| {
            before.topics == claim.topics
                && before.capabilities == claim.capabilities
                && now.since(before.last_seen_at) < FRESH
        };
        if let Some(known) = before.as_ref().filter(|before| is_same(before)) {
            return Ok(known.clone());
        }
        let record = WorkerRecord {
            worker: claim.worker.clone(),
            topics: claim.topics.clone(),
            capabilities: claim.capabilities.clone(),
            first_seen_at: before.as_ref().map_or(now, |before| before.first_seen_at),
            last_seen_at: now,
            is_draining: before.is_some_and(|before| before.is_draining),
        };
        self.put(Table::Workers, key, &record);
        Ok(record)
    }

    /// Records a heartbeat of a worker that is too busy to claim.
    pub(super) fn see_heartbeat(&mut self, worker: &WorkerId) -> Result<(), StoreError> {
        let (key, now) = (rows::worker(self.id, worker), self.now);
        let known: Option<WorkerRecord> = self.read(Table::Workers, &key)?;
        if let Some(stale) = known.filter(|known| now.since(known.last_seen_at) >= FRESH) {
            self.put(Table::Workers, key, &WorkerRecord { last_seen_at: now, ..stale });
        }
        Ok(())
    }
}

impl Decide for DrainWorker {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        let key = rows::worker(&self.tenant, &self.worker);
        let known: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
        let known = known.ok_or_else(|| StoreError::not_found("worker", &self.worker))?;
        let mut changes = Changes::default();
        if known.is_draining != self.is_draining {
            changes.put(Table::Workers, key, &WorkerRecord { is_draining: self.is_draining, ..known });
        }
        Ok(Decision { answer: (), changes })
    }
}

impl Decide for ForgetWorker {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        let key = rows::worker(&self.tenant, &self.worker);
        let known: Option<WorkerRecord> = read(view, Table::Workers, &key)?;
        let mut changes = Changes::default();
        if known.is_some_and(|known| known.last_seen_at <= self.unless_after) {
            changes.delete(Table::Workers, key);
        }
        Ok(Decision { answer: (), changes })
    }
}

impl Look for ListWorkers {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<WorkerRecord>, StoreError> {
        newest_page(view, Table::Workers, &self.tenant, &self.page, |key| read(view, Table::Workers, key))
    }
}

impl Look for ReadWorker {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<WorkerRecord>, StoreError> {
        read(view, Table::Workers, &rows::worker(&self.tenant, &self.worker))
    }
}
