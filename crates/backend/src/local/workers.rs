//! Workers on HTTP, as they were last seen.

use std::time::Duration;

use interlock_model::WorkerId;

use super::draft::{Draft, decide};
use super::rows;
use super::slots::LimitedTenant;
use super::store::look;
use super::tables::{Table, newest_page, read};
use crate::jobs::Claim;
use crate::verbs::{DrainWorker, ForgetWorker, ListWorkers, ReadWorker};
use crate::workers::WorkerRecord;
use crate::{Quota, StoreError};

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
        if before.is_none() {
            let most = LimitedTenant::read(self.view, self.id)?.limits.quotas.workers_max;
            if self.tenant()?.workers >= most {
                return Err(StoreError::QuotaReached { quota: Quota::Workers, most });
            }
            self.tenant()?.workers += 1;
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

    pub(super) fn forget_worker(&mut self, key: String) -> Result<(), StoreError> {
        self.delete(Table::Workers, key);
        let tenant = self.tenant()?;
        tenant.workers = tenant.workers.saturating_sub(1);
        Ok(())
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

decide!(DrainWorker, |verb, draft| {
    let key = rows::worker(&verb.tenant, &verb.worker);
    let known: WorkerRecord = draft.require(Table::Workers, &key, ("worker", &verb.worker))?;
    if known.is_draining != verb.is_draining {
        draft.put(Table::Workers, key, &WorkerRecord { is_draining: verb.is_draining, ..known });
    }
    Ok(())
});

decide!(ForgetWorker, |verb, draft| {
    let key = rows::worker(&verb.tenant, &verb.worker);
    let known: Option<WorkerRecord> = draft.read(Table::Workers, &key)?;
    if known.is_some_and(|known| known.last_seen_at <= verb.unless_after) {
        draft.forget_worker(key)?;
    }
    Ok(())
});

look!(ListWorkers, |verb, view| {
    let (page, rows_max) = ((&verb.tenant, &verb.page), verb.page.limit);
    newest_page(view, Table::Workers, page, rows_max, |row| read(view, Table::Workers, &row.key))
});

look!(ReadWorker, |verb, view| read(view, Table::Workers, &rows::worker(&verb.tenant, &verb.worker)));
