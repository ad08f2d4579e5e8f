//! Results under the lease of their run: recorded together with acquiring it, or deferred.

use interlock_model::job::JobOutcome;
use interlock_model::{Fence, JobId, Timestamp};
use serde::{Deserialize, Serialize};

use super::draft::{Draft, decide};
use super::jobs::stale;
use super::run_leases::RunAccess;
use super::tables::Table;
use super::{inbox, rows};
use crate::StoreError;
use crate::deliveries::{DeferOutcome, DeferredResult, DeliveryOutcome, IN_PROGRESS};
use crate::verbs::{AcquireDeferredResults, DeferResult, DeliverResult};

/// A deferred result as a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DeferredRow {
    pub outcome: JobOutcome,
    fence: Fence,
    deliveries: u32,
    since: Timestamp,
    pub(super) not_before: Timestamp,
}

impl Draft<'_> {
    /// The job's deferred result.
    pub(super) fn deferred(&self, job: &JobId) -> Result<Option<DeferredRow>, StoreError> {
        self.read(Table::Deferred, &rows::job(self.id, job))
    }

    /// Writes a deferred result that replaces `before`.
    fn defer(&mut self, job: &JobId, before: Option<&DeferredRow>, deferred: &DeferredRow) {
        if let Some(before) = before {
            self.delete(Table::DeferredDue, rows::timed(self.id, before.not_before, job));
        }
        self.put(Table::Deferred, rows::job(self.id, job), deferred);
        self.mark(Table::DeferredDue, rows::timed(self.id, deferred.not_before, job));
    }

    pub(super) fn forget_deferred(&mut self, job: &JobId) -> Result<(), StoreError> {
        if let Some(known) = self.deferred(job)? {
            self.delete(Table::DeferredDue, rows::timed(self.id, known.not_before, job));
            self.delete(Table::Deferred, rows::job(self.id, job));
        }
        Ok(())
    }

    /// The job's deferred result. Refuses a worker that now reports another outcome.
    fn first_result(
        &self,
        job: &JobId,
        fence: Fence,
        outcome: &JobOutcome,
    ) -> Result<Option<DeferredRow>, StoreError> {
        let known = self.deferred(job)?;
        if known.as_ref().is_some_and(|known| !known.outcome.is_repeated_by(outcome)) {
            return stale(fence, self.next_fence()?);
        }
        Ok(known)
    }
}

decide!(DeliverResult, |verb, draft| {
    if draft.lease_for_result(&verb.job, (verb.fence, verb.edge), &verb.outcome)?.is_none() {
        return Ok(DeliveryOutcome::AlreadyRecorded);
    }
    draft.first_result(&verb.job, verb.fence, &verb.outcome)?;
    let access = draft.access(verb.job.run)?;
    if matches!(access, RunAccess::Held) {
        return Ok(DeliveryOutcome::Busy);
    }
    let event = draft.end_and_post(&verb.job, verb.outcome.clone())?;
    let RunAccess::Free { tries } = access else { return Ok(DeliveryOutcome::Posted) };
    let acquired = draft.lease_run(verb.job.run, (&verb.holder, verb.lease), tries + 1)?;
    let Some(mut acquired) = acquired else { return Ok(DeliveryOutcome::Busy) };
    // What was posted just now is not in the view yet.
    if acquired.inbox.len() < inbox::DRAIN_MAX {
        acquired.inbox.push(event);
        acquired.inbox_end += 1;
    }
    Ok(DeliveryOutcome::Recorded(Box::new(acquired)))
});

decide!(DeferResult, |verb, draft| {
    let lease = draft.lease_for_result(&verb.job, (verb.fence, verb.edge), &verb.outcome)?;
    let Some(lease) = lease else { return Ok(DeferOutcome::AlreadyRecorded) };
    let known = draft.first_result(&verb.job, verb.fence, &verb.outcome)?;
    // The same call again, or the worker that has not received the answer: the schedule stays as it is.
    if known.as_ref().is_some_and(|known| known.deliveries >= verb.deliveries) {
        return Ok(DeferOutcome::Deferred);
    }
    let not_before = draft.now + verb.delay;
    let deferred = DeferredRow {
        outcome: verb.outcome.clone(),
        fence: verb.fence,
        deliveries: verb.deliveries,
        since: known.as_ref().map_or(draft.now - verb.waited, |known| known.since),
        not_before,
    };
    draft.defer(&verb.job, known.as_ref(), &deferred);
    // The worker has reported, and sends no more heartbeats.
    let until = not_before + verb.lease;
    if until > lease.expires_at {
        draft.move_lease(&verb.job, lease, until);
    }
    Ok(DeferOutcome::Deferred)
});

decide!(AcquireDeferredResults, |verb, draft| {
    let mut results = Vec::new();
    for row in draft.due(Table::DeferredDue, draft.now, verb.limit)? {
        let found = match rows::last_part(&row.key).parse::<JobId>() {
            Ok(job) => draft.deferred(&job)?.map(|known| (job, known)),
            Err(_) => None,
        };
        draft.delete(Table::DeferredDue, row.key);
        let Some((job, known)) = found else { continue };
        draft.defer(&job, None, &DeferredRow { not_before: draft.now + IN_PROGRESS, ..known.clone() });
        let DeferredRow { outcome, fence, deliveries, since, .. } = known;
        results.push(DeferredResult { job, fence, outcome, deliveries, waited: draft.now.since(since) });
    }
    Ok(results)
});
