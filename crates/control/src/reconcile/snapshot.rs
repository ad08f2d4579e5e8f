//! Writes down which workers are there, for people and programs that read the store itself.

use interlock_backend::verbs::{ForgetWorker, ListWorkers, ReadRegistry, SaveSnapshot};
use std::collections::BTreeMap;
use std::time::Duration;

use interlock_backend::{PageRequest, StoreError};
use interlock_model::scheduling::{LiveWorker, Load};
use interlock_model::{Fence, InstanceId, TenantId, Timestamp};
use serde_json::{Value, json};

use crate::every_tenant::EveryTenant;
use crate::process::Process;
use crate::worker_directory::KnownWorker;

/// Workers on HTTP in one snapshot, and of one tenant. Who reads it is told if there are more.
const RECORDS_MAX: usize = 5_000;
const RECORDS_OF_A_TENANT_MAX: usize = 500;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub workers: usize,
    /// Workers on HTTP that were not seen for so long that they were forgotten.
    pub workers_forgotten: usize,
}

pub(super) async fn write(process: &Process, fence: Fence) -> Result<Snapshot, StoreError> {
    let registry = process.store.call(ReadRegistry).await?;
    let now = registry.now;
    let silence = process.settings.worker_silence;
    let on_nats = |known| KnownWorker::on_nats(known, now, silence);
    let mut workers: Vec<KnownWorker> = registry.workers.into_iter().map(on_nats).collect();
    let (on_http, is_whole) = records(process, now).await?;
    let forgotten = forget(process, &on_http, now).await?;
    workers.extend(on_http);
    let seen = Seen { now, workers: &workers, is_whole };
    let document = document(&seen, &process.instance, fence).to_string();
    process.store.call(SaveSnapshot { fence, snapshot: document.clone() }).await?;
    Ok(Snapshot { workers: workers.len(), workers_forgotten: forgotten })
}

/// Workers on HTTP of all tenants, as far as they fit, and whether all did.
async fn records(process: &Process, now: Timestamp) -> Result<(Vec<KnownWorker>, bool), StoreError> {
    let mut found = Vec::new();
    let mut is_whole = true;
    let mut tenants = EveryTenant::new();
    while let Some(page) = tenants.next_page(process).await? {
        for tenant in &page {
            let room = RECORDS_MAX.saturating_sub(found.len()).min(RECORDS_OF_A_TENANT_MAX);
            if room == 0 {
                return Ok((found, false));
            }
            let page = PageRequest { limit: room, after: None };
            let records =
                match process.store.call(ListWorkers { tenant: tenant.clone(), page: page.clone() }).await {
                    Ok(records) => records,
                    // One tenant's damage is not everybody's; the doctor tells of it.
                    Err(StoreError::Damaged { .. }) => {
                        is_whole = false;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
            is_whole &= records.next.is_none();
            let on_http = |record| KnownWorker::on_http(tenant, record, now, &process.settings);
            found.extend(records.items.into_iter().map(on_http));
        }
    }
    Ok((found, is_whole))
}

/// Forgets those that have been away for long. The edge does the same for those on the bus.
async fn forget(process: &Process, on_http: &[KnownWorker], now: Timestamp) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    for known in on_http {
        let away: Duration = now.since(known.last_seen_at);
        if let Some(tenant) = known.tenant.as_ref().filter(|_| away > process.settings.worker_forgotten_after)
        {
            process
                .store
                .call(ForgetWorker {
                    tenant: tenant.clone(),
                    worker: known.found.worker.clone(),
                    unless_after: known.last_seen_at,
                })
                .await?;
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

struct Seen<'a> {
    now: Timestamp,
    workers: &'a [KnownWorker],
    is_whole: bool,
}

/// What the workers of a pool, or those that serve a topic, carry and could carry. Those on HTTP do not say.
#[derive(Debug, Default)]
struct Carried {
    workers: usize,
    active_jobs: u32,
    capacity: u32,
    available: u32,
}

impl Carried {
    fn add(&mut self, worker: &LiveWorker) {
        self.workers += 1;
        if let Some(Load { jobs, jobs_max }) = worker.load {
            self.active_jobs = self.active_jobs.saturating_add(jobs);
            self.capacity = self.capacity.saturating_add(jobs_max);
            let free = if worker.is_draining { 0 } else { jobs_max.saturating_sub(jobs) };
            self.available = self.available.saturating_add(free);
        }
    }
}

fn told(capacities: &BTreeMap<&str, Carried>) -> Value {
    let told = |(name, one): (&&str, &Carried)| {
        let Carried { workers, active_jobs, capacity, available } = one;
        let told = json!({
            "workers": workers, "active_jobs": active_jobs, "capacity": capacity, "available": available,
        });
        ((*name).to_owned(), told)
    };
    Value::Object(capacities.iter().map(told).collect())
}

/// It says when it was made and by whom: whoever reads it must be able to see how old it is.
fn document(seen: &Seen<'_>, writer: &InstanceId, fence: Fence) -> Value {
    let mut pools: BTreeMap<&str, Carried> = BTreeMap::new();
    let mut topics: BTreeMap<&str, Carried> = BTreeMap::new();
    for known in seen.workers.iter().filter(|known| known.is_online) {
        if let Some(pool) = &known.found.pool {
            pools.entry(pool).or_default().add(&known.found);
        }
        for topic in &known.found.topics {
            topics.entry(topic.as_str()).or_default().add(&known.found);
        }
    }
    json!({
        "captured_at": seen.now.to_string(),
        "writer": writer.as_str(),
        "fence": fence.number(),
        "is_whole": seen.is_whole,
        "pools": told(&pools),
        "topics": told(&topics),
        "workers": seen.workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn worker(known: &KnownWorker) -> Value {
    let LiveWorker { worker, edge, topics, capabilities, pool, is_draining, load } = &known.found;
    json!({
        "worker_id": worker.as_str(),
        "edge": edge,
        "topics": topics,
        "capabilities": capabilities,
        "pool": pool,
        "tenant": known.tenant.as_ref().map(TenantId::as_str),
        "active_jobs": load.map(|load| load.jobs),
        "max_parallel_jobs": load.map(|load| load.jobs_max),
        "draining": is_draining,
        "online": known.is_online,
        "last_seen_at": known.last_seen_at.to_string(),
    })
}
