//! The workers of both edges, by the store's clock, so that every replica gives the same answer.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::jobs::JobView;
use interlock_backend::registry::{RegisteredWorker, Registry};
use interlock_backend::verbs::{CountJobsBefore, ListWorkers, ReadRegistry, ReadWorker};
use interlock_backend::workers::WorkerRecord;
use interlock_backend::{Page, PageRequest, StoreError, StoreReader};
use interlock_model::job::NewJob;
use interlock_model::scheduling::{DEFAULT_CAPACITY, Edge, LiveWorker, Load, WaitingFor};
use interlock_model::{TenantId, Timestamp, WorkerId};

use crate::process::Process;

/// HTTP workers of one tenant that one answer reads.
const RECORDS_MAX: usize = 2_000;
const RECORDS_A_PAGE: usize = 500;

/// An HTTP worker without a claim or heartbeat for this long is offline.
const HTTP_ONLINE: Duration = Duration::from_secs(90);

/// A worker of either edge. One name is one worker: if both edges know it, the edge where it was last heard counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWorker {
    pub found: LiveWorker,
    /// The only tenant that it serves.
    pub tenant: Option<TenantId>,
    pub first_seen_at: Option<Timestamp>,
    pub last_seen_at: Timestamp,
    /// Whether it was heard of lately enough.
    pub is_online: bool,
}

impl KnownWorker {
    pub(crate) fn on_http(tenant: &TenantId, record: WorkerRecord, now: Timestamp) -> Self {
        let WorkerRecord { worker, topics, capabilities, first_seen_at, last_seen_at, is_draining } = record;
        let edge = Edge::Http;
        Self {
            found: LiveWorker { worker, edge, topics, capabilities, pool: None, is_draining, load: None },
            tenant: Some(tenant.clone()),
            first_seen_at: Some(first_seen_at),
            last_seen_at,
            is_online: now.since(last_seen_at) < HTTP_ONLINE,
        }
    }

    pub(crate) fn on_nats(known: RegisteredWorker, now: Timestamp, silence: Duration) -> Self {
        let RegisteredWorker { worker, handshake, beat, last_seen_at, is_draining } = known;
        let beat = beat.unwrap_or_default();
        let jobs_max = if beat.jobs_max == 0 { DEFAULT_CAPACITY } else { beat.jobs_max };
        Self {
            found: LiveWorker {
                worker,
                edge: Edge::Nats,
                topics: handshake.map(|handshake| handshake.topics).unwrap_or_default(),
                capabilities: beat.capabilities,
                pool: beat.pool,
                is_draining,
                load: Some(Load { jobs: beat.jobs_active, jobs_max }),
            },
            tenant: beat.tenant,
            first_seen_at: None,
            last_seen_at,
            is_online: now.since(last_seen_at) <= silence,
        }
    }

    /// Whether it may have jobs of this tenant.
    pub fn serves(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|only| only == tenant)
    }
}

/// Reads which workers there are.
pub struct WorkerDirectory {
    process: Arc<Process>,
    store: StoreReader,
}

impl WorkerDirectory {
    pub fn new(process: Arc<Process>) -> Self {
        Self { store: process.reader(), process }
    }

    /// The store's time, and the NATS workers that serve this tenant.
    async fn on_nats(&self, tenant: &TenantId) -> Result<(Timestamp, Vec<KnownWorker>), StoreError> {
        let Registry { now, workers } = self.store.call(ReadRegistry).await?;
        let known = |known| KnownWorker::on_nats(known, now, self.process.settings.worker_silence);
        Ok((now, workers.into_iter().map(known).filter(|known| known.serves(tenant)).collect()))
    }

    /// HTTP workers of this tenant, and NATS workers that serve it, by name from the last.
    pub async fn list(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<KnownWorker>, StoreError> {
        let (now, on_nats) = self.on_nats(tenant).await?;
        let records = self.store.call(ListWorkers { tenant: tenant.clone(), page: page.clone() }).await?;
        let on_http = |record| KnownWorker::on_http(tenant, record, now);
        let mut found: Vec<KnownWorker> = records.items.into_iter().map(on_http).collect();
        let last = found.last().filter(|_| records.next.is_some()).map(|known| known.found.worker.clone());
        let is_on_page = |known: &KnownWorker| {
            let name = &known.found.worker;
            let follows = page.after.as_deref().is_none_or(|after| name.as_str() < after);
            follows && last.as_ref().is_none_or(|last| name >= last)
        };
        found.extend(on_nats.into_iter().filter(is_on_page));
        found.sort_by_key(|known| (Reverse(known.found.worker.clone()), Reverse(known.last_seen_at)));
        found.dedup_by(|one, other| one.found.worker == other.found.worker);
        let has_more = records.next.is_some() || found.len() > page.limit;
        found.truncate(page.limit);
        let next = found.last().filter(|_| has_more).map(|known| known.found.worker.to_string());
        Ok(Page { items: found, next })
    }

    pub async fn find(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
    ) -> Result<Option<KnownWorker>, StoreError> {
        let (now, on_nats) = self.on_nats(tenant).await?;
        let record = self.store.call(ReadWorker { tenant: tenant.clone(), worker: worker.clone() }).await?;
        let on_http = record.map(|record| KnownWorker::on_http(tenant, record, now));
        let on_nats = on_nats.into_iter().find(|known| known.found.worker == *worker);
        Ok(on_http.into_iter().chain(on_nats).max_by_key(|known| known.last_seen_at))
    }

    /// Online workers that may have jobs of this tenant.
    pub async fn live_workers(&self, tenant: &TenantId) -> Result<Vec<LiveWorker>, StoreError> {
        let (now, mut live) = self.on_nats(tenant).await?;
        let mut page = PageRequest { limit: RECORDS_A_PAGE, after: None };
        while live.len() < RECORDS_MAX {
            let records = self.store.call(ListWorkers { tenant: tenant.clone(), page: page.clone() }).await?;
            let on_http = |record| KnownWorker::on_http(tenant, record, now);
            live.extend(records.items.into_iter().map(on_http));
            let Some(next) = records.next else { break };
            page.after = Some(next);
        }
        Ok(live.into_iter().filter(|known| known.is_online).map(|known| known.found).collect())
    }

    /// Why the job has no worker yet; none if it does not wait for one.
    pub async fn waiting_for(
        &self,
        tenant: &TenantId,
        view: &JobView,
    ) -> Result<Option<WaitingFor>, StoreError> {
        let job = &view.job.new;
        let Some(position) =
            self.store.call(CountJobsBefore { tenant: tenant.clone(), job: job.id.clone() }).await?
        else {
            return Ok(None);
        };
        self.judge(tenant, job, position).await.map(Some)
    }

    /// Why a job at this position of its queue has no worker.
    pub(crate) async fn judge(
        &self,
        tenant: &TenantId,
        job: &NewJob,
        position: usize,
    ) -> Result<WaitingFor, StoreError> {
        let workers = self.live_workers(tenant).await?;
        Ok(WaitingFor::judge(job, position, &workers, &self.process.settings.pools))
    }
}
