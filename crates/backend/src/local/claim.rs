//! Giving waiting jobs to a worker.

use interlock_model::job::{Job, JobLease};
use interlock_model::queue::{KINDS_MAX, Kind};
use interlock_model::scheduling::Edge;
use interlock_model::{JobId, Topic};

use super::draft::{Draft, decide};
use super::rows;
use super::tables::{Pick, Table, View, end_of, scan_prefix};
use crate::StoreError;
use crate::jobs::Claimed;
use crate::verbs::Claim;

decide!(Claim, |verb, draft| {
    if verb.edge == Edge::Http && draft.see_worker(verb)?.is_draining {
        return Ok(Vec::new());
    }
    let mut claimed = Vec::new();
    for (queued_key, job) in oldest_first(draft.view, verb)? {
        draft.delete(Table::Queue, queued_key);
        // An entry of a job that is not available must neither be given out nor block the queue.
        if let Some(open) = available(draft, &job)? {
            claimed.push(lease_out(draft, open, verb)?);
        }
    }
    Ok(claimed)
});

/// The job, if it is open, with no worker, and held by no policy.
fn available(draft: &Draft<'_>, job: &JobId) -> Result<Option<Job>, StoreError> {
    let key = rows::job(draft.id, job);
    let open: Option<Job> = draft.read(Table::Jobs, &key)?;
    let is_taken = draft.has(Table::JobLeases, &key)? || draft.has(Table::Held, &key)?;
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

fn lease_out(draft: &mut Draft<'_>, open: Job, claim: &Claim) -> Result<Claimed, StoreError> {
    let (job, now) = (&open.new.id, draft.now);
    let deadline_at = open.new.deadline_from(now);
    let ttl = claim.term.of(deadline_at, now);
    let lease = JobLease {
        worker: claim.worker.clone(),
        fence: draft.mint_fence()?,
        ttl,
        expires_at: now + ttl,
        claimed_at: now,
        deadline_at,
        edge: Some(claim.edge),
    };
    draft.put(Table::JobLeases, rows::job(draft.id, job), &lease);
    draft.forget_queue_timeout(&open.new);
    draft.mark(Table::JobExpiries, rows::timed(draft.id, lease.expires_at, job));
    Ok(Claimed { job: open.new, lease, queued_at: open.created_at })
}
