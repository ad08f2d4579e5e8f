//! Giving waiting jobs to a worker.

use interlock_model::job::{Job, JobLease};
use interlock_model::queue::{KINDS_MAX, Kind};
use interlock_model::scheduling::Edge;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, Timestamp, Topic};

use super::rows;
use super::tables::{Changes, Decision, Pick, Table, View, end_of, read, scan_prefix};
use super::{slots, workers};
use crate::StoreError;
use crate::jobs::{Claim, Claimed};

pub(super) fn claim(
    view: &dyn View,
    now: Timestamp,
    claim: &Claim,
) -> Result<Decision<Vec<Claimed>>, StoreError> {
    let mut changes = Changes::default();
    if claim.edge == Edge::Http && workers::seen(view, &mut changes, claim, now)?.is_draining {
        return Ok(Decision { answer: Vec::new(), changes });
    }
    let mut tenant = slots::tenant(view, &claim.tenant)?;
    let mut claimed = Vec::new();
    for (queued_key, job) in oldest_first(view, claim)? {
        changes.delete(Table::Queue, queued_key);
        // An entry for what is not to be had must neither be given out nor stand in the way.
        if let Some(open) = waiting(view, claim, &job)? {
            claimed.push(lease_out(&mut changes, &mut tenant, open, (claim, now)));
        }
    }
    if !claimed.is_empty() {
        changes.put(Table::Tenants, claim.tenant.as_str(), &tenant);
    }
    Ok(Decision { answer: claimed, changes })
}

/// The job, if it is open, with no worker, and held by no policy.
fn waiting(view: &dyn View, claim: &Claim, job: &JobId) -> Result<Option<Job>, StoreError> {
    let key = rows::job(&claim.tenant, job);
    let open: Option<Job> = read(view, Table::Jobs, &key)?;
    let is_taken = view.get(Table::JobLeases, &key)?.is_some() || view.get(Table::Held, &key)?.is_some();
    Ok(open.filter(|open| open.end.is_none() && !is_taken))
}

/// The jobs that wait for this worker, over all of its topics and all kinds that it is capable of.
fn oldest_first(view: &dyn View, claim: &Claim) -> Result<Vec<(String, JobId)>, StoreError> {
    let mut waiting = Vec::new();
    for topic in &claim.topics {
        for kind in kinds(view, claim, topic)? {
            let queue = rows::queue(&claim.tenant, topic, &kind);
            for row in scan_prefix(view, Table::Queue, &queue, Pick::First(claim.jobs_max))? {
                if let Ok(job) = rows::last_part(&row.key).parse() {
                    let place = row.key[queue.len()..].to_owned();
                    waiting.push((place, row.key, job));
                }
            }
        }
    }
    waiting.sort();
    // A topic that was named twice shows its jobs twice.
    waiting.dedup();
    waiting.truncate(claim.jobs_max);
    Ok(waiting.into_iter().map(|(_, key, job)| (key, job)).collect())
}

/// The usual kind, and of the others in the topic's queues those that the worker is capable of.
fn kinds(view: &dyn View, claim: &Claim, topic: &Topic) -> Result<Vec<Kind>, StoreError> {
    let mut fitting = vec![Kind::default()];
    if claim.capabilities.is_empty() {
        return Ok(fitting);
    }
    let (mut from, until) = rows::kinds(&claim.tenant, topic);
    for _ in 0..KINDS_MAX {
        let Some(first) = view.scan(Table::Queue, &from, &until, Pick::First(1))?.pop() else { break };
        let Some(kind) = rows::kind_of(&first.key) else { break };
        from = end_of(&rows::queue(&claim.tenant, topic, &kind));
        if kind.fits(&claim.capabilities) {
            fitting.push(kind);
        }
    }
    Ok(fitting)
}

fn lease_out(
    changes: &mut Changes,
    tenant: &mut Tenant,
    open: Job,
    (claim, now): (&Claim, Timestamp),
) -> Claimed {
    let job = &open.new.id;
    let ttl = claim.term.of(open.new.deadline_at, now);
    let lease = JobLease {
        worker: claim.worker.clone(),
        fence: tenant.mint_fence(now),
        ttl,
        expires_at: now + ttl,
        claimed_at: now,
    };
    changes.put(Table::JobLeases, rows::job(&claim.tenant, job), &lease);
    changes.mark(Table::JobExpiries, rows::expiry(&claim.tenant, lease.expires_at, job));
    Claimed { job: open.new, lease, queued_at: open.created_at }
}
