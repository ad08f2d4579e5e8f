//! Results under the lock of their run: recorded together with taking it, or put off.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::job::{JobLease, JobOutcome};
use interlock_model::run::InboxEvent;
use interlock_model::{Fence, JobId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::commit::end_job;
use super::jobs::{stale, undecided};
use super::rows::{self, RunLease};
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, parse, read};
use super::{inbox, slots, take};
use crate::StoreError;
use crate::deliveries::{
    DeliveryStore, IN_HAND, PutOff, PutOffAnswer, PutOffResult, ReportAndTake, ReportTaken,
};
use crate::runs::Taken;

/// A result that waits for its next delivery.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub outcome: JobOutcome,
    fence: Fence,
    deliveries: u32,
    since: Timestamp,
    pub(super) not_before: Timestamp,
}

/// What of this job waits for another delivery.
pub(super) fn waiting(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Option<Waiting>, StoreError> {
    read(view, Table::PutOff, &rows::job(id, job))
}

/// The job is over: nothing of it waits any longer.
pub(super) fn forget(
    view: &dyn View,
    changes: &mut Changes,
    id: &TenantId,
    job: &JobId,
) -> Result<(), StoreError> {
    if let Some(known) = waiting(view, id, job)? {
        changes.delete(Table::PutOffDue, rows::expiry(id, known.not_before, job));
        changes.delete(Table::PutOff, rows::job(id, job));
    }
    Ok(())
}

fn report_and_take(
    view: &dyn View,
    now: Timestamp,
    report: &ReportAndTake,
) -> Result<Decision<ReportTaken>, StoreError> {
    let (id, job, run) = (&report.tenant, &report.job, report.job.run);
    if undecided(view, now, (id, job), (report.fence, report.outcome.cause()))?.is_none() {
        return Ok(Decision::unchanged(ReportTaken::AlreadyRecorded));
    }
    first_word(view, now, (id, job), (report.fence, &report.outcome))?;
    let Some(free) = take::free_run(view, now, id, run)? else {
        return Ok(Decision::unchanged(ReportTaken::Busy));
    };
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    end_job(view, &mut changes, (id, &mut tenant), job, (report.outcome.cause(), now))?;
    let event = InboxEvent::Job { at: now, job: job.clone(), outcome: report.outcome.clone() };
    inbox::post(view, &mut changes, (id, run), std::slice::from_ref(&event))?;
    let fence = tenant.mint_fence(now);
    let held = RunLease { holder: report.holder.clone(), fence, expires_at: now + report.lease };
    changes.put(Table::RunLeases, rows::run(id, run), &held);
    changes.put(Table::Tenants, id.as_str(), &tenant);
    let mut taken = Taken { fence, ..free };
    // What was posted just now is not in the view yet.
    if taken.inbox.len() < inbox::DRAIN_MAX {
        taken.inbox.push(event);
        taken.inbox_end += 1;
    }
    Ok(Decision { answer: ReportTaken::Recorded(Box::new(taken)), changes })
}

/// What waits of the job already. A worker that now says something else is told that it is late.
fn first_word(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    (fence, outcome): (Fence, &JobOutcome),
) -> Result<Option<Waiting>, StoreError> {
    let known = waiting(view, id, job)?;
    if known.as_ref().is_some_and(|known| known.outcome.cause() != outcome.cause()) {
        return stale(fence, slots::tenant(view, id)?.fence.next(now));
    }
    Ok(known)
}

fn put_off(view: &dyn View, now: Timestamp, asked: &PutOff) -> Result<Decision<PutOffAnswer>, StoreError> {
    let (id, job) = (&asked.tenant, &asked.job);
    let lease = undecided(view, now, (id, job), (asked.fence, asked.outcome.cause()))?;
    let Some(lease) = lease else { return Ok(Decision::unchanged(PutOffAnswer::AlreadyRecorded)) };
    let known = first_word(view, now, (id, job), (asked.fence, &asked.outcome))?;
    // Asked again, or by the worker that has not heard the answer: the schedule goes on as it is.
    if known.as_ref().is_some_and(|known| known.deliveries >= asked.deliveries) {
        return Ok(Decision::unchanged(PutOffAnswer::PutOff));
    }
    let mut changes = Changes::default();
    if let Some(known) = &known {
        changes.delete(Table::PutOffDue, rows::expiry(id, known.not_before, job));
    }
    let not_before = now + asked.delay;
    let row = Waiting {
        outcome: asked.outcome.clone(),
        fence: asked.fence,
        deliveries: asked.deliveries,
        since: known.map_or(now - asked.waited, |known| known.since),
        not_before,
    };
    changes.put(Table::PutOff, rows::job(id, job), &row);
    changes.mark(Table::PutOffDue, rows::expiry(id, not_before, job));
    extend(&mut changes, (id, job), lease, not_before + asked.lease);
    Ok(Decision { answer: PutOffAnswer::PutOff, changes })
}

/// The worker has said all that it has to say, and is not heard of meanwhile.
fn extend(changes: &mut Changes, (id, job): (&TenantId, &JobId), lease: JobLease, until: Timestamp) {
    if until > lease.expires_at {
        changes.delete(Table::JobExpiries, rows::expiry(id, lease.expires_at, job));
        changes.mark(Table::JobExpiries, rows::expiry(id, until, job));
        changes.put(Table::JobLeases, rows::job(id, job), &JobLease { expires_at: until, ..lease });
    }
}

fn take_put_off(
    view: &dyn View,
    now: Timestamp,
    id: &TenantId,
    limit: usize,
) -> Result<Decision<Vec<PutOffResult>>, StoreError> {
    let due = view.scan(Table::PutOffDue, &rows::of_tenant(id), &rows::after(id, now), Pick::First(limit))?;
    let mut changes = Changes::default();
    let mut results = Vec::with_capacity(due.len());
    for row in due {
        changes.delete(Table::PutOffDue, row.key.clone());
        let Ok(job) = rows::last_part(&row.key).parse::<JobId>() else { continue };
        let key = rows::job(id, &job);
        let Some(value) = view.get(Table::PutOff, &key)? else { continue };
        let known: Waiting = parse(Table::PutOff, &key, &value)?;
        let not_before = now + IN_HAND;
        changes.mark(Table::PutOffDue, rows::expiry(id, not_before, &job));
        let waited: Duration = now.since(known.since);
        let Waiting { outcome, fence, deliveries, .. } = known.clone();
        changes.put(Table::PutOff, key, &Waiting { not_before, ..known });
        results.push(PutOffResult { job, fence, outcome, deliveries, waited });
    }
    Ok(Decision { answer: results, changes })
}

#[async_trait]
impl<E: Executor> DeliveryStore for LocalStore<E> {
    async fn report_and_take(&self, report: &ReportAndTake) -> Result<ReportTaken, StoreError> {
        let report = report.clone();
        self.write("record a result", move |view, now| report_and_take(view, now, &report)).await
    }

    async fn put_off(&self, asked: &PutOff) -> Result<PutOffAnswer, StoreError> {
        let asked = asked.clone();
        self.write("put a result off", move |view, now| put_off(view, now, &asked)).await
    }

    async fn take_put_off(&self, tenant: &TenantId, limit: usize) -> Result<Vec<PutOffResult>, StoreError> {
        let tenant = tenant.clone();
        self.write("take results that are due", move |view, now| take_put_off(view, now, &tenant, limit))
            .await
    }
}
