//! Who works here: workers of both edges, by the store's clock, so that every replica says the same.

use std::cmp::Reverse;
use std::time::Duration;

use interlock_backend::jobs::JobView;
use interlock_backend::registry::{RegisteredWorker, Registry};
use interlock_backend::workers::WorkerRecord;
use interlock_backend::{Page, PageRequest, StoreError, Wake};
use interlock_model::scheduling::{DEFAULT_CAPACITY, Edge, LiveWorker, Load, WaitingFor};
use interlock_model::{TenantId, Timestamp, WorkerId};

use crate::service::Control;
use crate::settings::Settings;

/// Workers on HTTP of one tenant that a judgement goes through.
const RECORDS_MAX: usize = 2_000;
const RECORDS_A_PAGE: usize = 500;

/// A worker of either edge. One name is one worker: on both edges it is where it was last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWorker {
    pub found: LiveWorker,
    /// The only tenant that it serves.
    pub tenant: Option<TenantId>,
    pub first_seen_at: Option<Timestamp>,
    pub last_seen_at: Timestamp,
    /// Whether it was heard of lately enough to count on.
    pub is_online: bool,
}

impl KnownWorker {
    pub(crate) fn on_http(
        tenant: &TenantId,
        record: WorkerRecord,
        now: Timestamp,
        settings: &Settings,
    ) -> Self {
        let WorkerRecord { worker, topics, capabilities, first_seen_at, last_seen_at, is_draining } = record;
        let edge = Edge::Http;
        Self {
            found: LiveWorker { worker, edge, topics, capabilities, pool: None, is_draining, load: None },
            tenant: Some(tenant.clone()),
            first_seen_at: Some(first_seen_at),
            last_seen_at,
            is_online: now.since(last_seen_at) < settings.worker_online,
        }
    }

    pub(crate) fn on_the_bus(known: RegisteredWorker, now: Timestamp, silence: Duration) -> Self {
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
    #[must_use]
    pub fn serves(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|only| only == tenant)
    }
}

impl Control {
    /// Workers on HTTP of this tenant, and workers on the bus that serve it, by name from the last.
    pub async fn workers(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<KnownWorker>, StoreError> {
        let Registry { now, workers } = self.store.registry().await?;
        let records = self.store.workers(tenant, page).await?;
        let on_http = |record| KnownWorker::on_http(tenant, record, now, &self.settings);
        let mut found: Vec<KnownWorker> = records.items.into_iter().map(on_http).collect();
        let last = found.last().filter(|_| records.next.is_some()).map(|known| known.found.worker.clone());
        let is_on_page = |known: &KnownWorker| {
            let name = &known.found.worker;
            let follows = page.after.as_deref().is_none_or(|after| name.as_str() < after);
            follows && last.as_ref().is_none_or(|last| name >= last)
        };
        let on_the_bus = |known| KnownWorker::on_the_bus(known, now, self.settings.worker_silence);
        let on_the_bus = workers.into_iter().map(on_the_bus).filter(|known| known.serves(tenant));
        found.extend(on_the_bus.filter(is_on_page));
        found.sort_by_key(|known| (Reverse(known.found.worker.clone()), Reverse(known.last_seen_at)));
        found.dedup_by(|one, other| one.found.worker == other.found.worker);
        let has_more = records.next.is_some() || found.len() > page.limit;
        found.truncate(page.limit);
        let next = found.last().filter(|_| has_more).map(|known| known.found.worker.to_string());
        Ok(Page { items: found, next })
    }

    pub async fn worker(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
    ) -> Result<Option<KnownWorker>, StoreError> {
        let Registry { now, workers } = self.store.registry().await?;
        let record = self.store.worker(tenant, worker).await?;
        let on_http = record.map(|record| KnownWorker::on_http(tenant, record, now, &self.settings));
        let registered = workers.into_iter().find(|known| known.worker == *worker);
        let on_the_bus =
            registered.map(|known| KnownWorker::on_the_bus(known, now, self.settings.worker_silence));
        let on_the_bus = on_the_bus.filter(|known| known.serves(tenant));
        Ok(on_http.into_iter().chain(on_the_bus).max_by_key(|known| known.last_seen_at))
    }

    /// Everybody who is there now and may have jobs of this tenant.
    pub async fn live_workers(&self, tenant: &TenantId) -> Result<Vec<LiveWorker>, StoreError> {
        let Registry { now, workers } = self.store.registry().await?;
        let on_the_bus = |known| KnownWorker::on_the_bus(known, now, self.settings.worker_silence);
        let mut live: Vec<KnownWorker> = workers.into_iter().map(on_the_bus).collect();
        let mut page = PageRequest { limit: RECORDS_A_PAGE, after: None };
        while live.len() < RECORDS_MAX {
            let records = self.store.workers(tenant, &page).await?;
            let on_http = |record| KnownWorker::on_http(tenant, record, now, &self.settings);
            live.extend(records.items.into_iter().map(on_http));
            let Some(next) = records.next else { break };
            page.after = Some(next);
        }
        live.retain(|known| known.is_online && known.serves(tenant));
        Ok(live.into_iter().map(|known| known.found).collect())
    }

    /// Why the job has no worker yet; nothing if it does not wait for one.
    pub async fn waiting_for(
        &self,
        tenant: &TenantId,
        view: &JobView,
    ) -> Result<Option<WaitingFor>, StoreError> {
        let job = &view.job.new;
        let Some(position) = self.store.jobs_before(tenant, &job.id).await? else { return Ok(None) };
        let workers = self.live_workers(tenant).await?;
        Ok(Some(WaitingFor::judge(job, position, &workers, &self.settings.pools)))
    }

    /// From now on the worker is given no new jobs, or is again. It keeps what it has.
    pub async fn drain(
        &self,
        tenant: &TenantId,
        worker: &KnownWorker,
        is_draining: bool,
    ) -> Result<(), StoreError> {
        let LiveWorker { worker, edge, .. } = &worker.found;
        match edge {
            Edge::Http => self.store.drain_worker(tenant, worker, is_draining).await?,
            Edge::Nats => self.store.drain(worker, is_draining).await?,
        }
        self.wake(Wake::WorkersChanged);
        Ok(())
    }
}
