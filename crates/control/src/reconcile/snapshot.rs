//! Writes the snapshot of the workers, for people and programs that read the store itself.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_backend::verbs::{ForgetWorker, ListWorkers, ReadRegistry, SaveSnapshot};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::scheduling::{LiveWorker, Load};
use interlock_model::{Fence, InstanceId, TenantId, Timestamp};
use serde_json::{Value, json};

use super::ticking::TickReport;
use crate::every_tenant::EveryTenant;
use crate::process::Process;
use crate::worker_directory::KnownWorker;

/// HTTP workers in one snapshot, and of one tenant. `is_whole` says whether there are more.
const RECORDS_MAX: usize = 5_000;
const RECORDS_OF_A_TENANT_MAX: usize = 500;

/// An HTTP worker that was not seen for this long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

pub(super) async fn write(process: &Process, fence: Fence) -> Result<TickReport, StoreError> {
    let registry = process.call(ReadRegistry).await?;
    let now = registry.now;
    let silence = process.settings.worker_silence;
    let on_nats = |known| KnownWorker::on_nats(known, now, silence);
    let mut workers: Vec<KnownWorker> = registry.workers.into_iter().map(on_nats).collect();
    let (on_http, is_whole) = records(process, now).await?;
    let workers_forgotten = forget(process, &on_http, now).await?;
    workers.extend(on_http);
    let seen = Seen { now, workers: &workers, is_whole };
    let snapshot = document(&seen, &process.instance, fence).to_string();
    process.call(SaveSnapshot { fence, snapshot }).await?;
    Ok(TickReport { workers: workers.len(), workers_forgotten, ..TickReport::default() })
}

/// HTTP workers of all tenants, as many as fit, and whether all did.
async fn records(process: &Process, now: Timestamp) -> Result<(Vec<KnownWorker>, bool), StoreError> {
    let mut found = Vec::new();
    let mut is_whole = true;
    let mut tenants = EveryTenant::default();
    while let Some(tenant) = tenants.next(process).await? {
        let room = RECORDS_MAX.saturating_sub(found.len()).min(RECORDS_OF_A_TENANT_MAX);
        if room == 0 {
            return Ok((found, false));
        }
        let page = PageRequest { limit: room, after: None };
        let records = match process.call(ListWorkers { tenant: tenant.clone(), page }).await {
            // An unreadable row of one tenant does not stop the others; the doctor reports it.
            Err(StoreError::Damaged { .. }) => {
                is_whole = false;
                continue;
            }
            records => records?,
        };
        is_whole &= records.next.is_none();
        let on_http = |record| KnownWorker::on_http(&tenant, record, now);
        found.extend(records.items.into_iter().map(on_http));
    }
    Ok((found, is_whole))
}

/// Forgets HTTP workers that have been offline for long; the NATS edge does the same for its own.
async fn forget(process: &Process, on_http: &[KnownWorker], now: Timestamp) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    let is_old = |known: &&KnownWorker| now.since(known.last_seen_at) > FORGOTTEN_AFTER;
    for known in on_http.iter().filter(is_old) {
        let Some(tenant) = known.tenant.clone() else { continue };
        let (worker, unless_after) = (known.found.worker.clone(), known.last_seen_at);
        process.call(ForgetWorker { tenant, worker, unless_after }).await?;
        forgotten += 1;
    }
    Ok(forgotten)
}

struct Seen<'a> {
    now: Timestamp,
    workers: &'a [KnownWorker],
    is_whole: bool,
}

/// Load and capacity of the workers of a pool, or of those that serve a topic. HTTP workers report neither.
#[derive(Debug, Default)]
struct Totals {
    workers: usize,
    active_jobs: u32,
    capacity: u32,
    available: u32,
}

impl Totals {
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

fn totals(by_name: &BTreeMap<&str, Totals>) -> Value {
    let entry = |(name, one): (&&str, &Totals)| {
        let Totals { workers, active_jobs, capacity, available } = one;
        let value = json!({
            "workers": workers, "active_jobs": active_jobs, "capacity": capacity, "available": available,
        });
        ((*name).to_owned(), value)
    };
    Value::Object(by_name.iter().map(entry).collect())
}

/// With the time and the writer, so that a reader sees how old it is.
fn document(seen: &Seen<'_>, writer: &InstanceId, fence: Fence) -> Value {
    let mut pools: BTreeMap<&str, Totals> = BTreeMap::new();
    let mut topics: BTreeMap<&str, Totals> = BTreeMap::new();
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
        "pools": totals(&pools),
        "topics": totals(&topics),
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
