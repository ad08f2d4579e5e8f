//! Results under the lease of their run: recorded together with acquiring it, or deferred.

use interlock_model::job::JobOutcome;
use interlock_model::{Fence, JobId, Timestamp};
use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::jobs::stale;
use super::store::Decide;
use super::tables::{Decided, Decision, Table, View};
use super::{inbox, rows, run_leases};
use crate::StoreError;
use crate::deliveries::{DeferOutcome, DeferredResult, DeliveryOutcome, IN_PROGRESS};
use crate::verbs::{AcquireDeferredResults, DeferResult, DeliverResult};

/// A deferred result as a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Deferred {
    pub outcome: JobOutcome,
    fence: Fence,
    deliveries: u32,
    since: Timestamp,
    pub(super) not_before: Timestamp,
}

impl Draft<'_> {
    /// The job's deferred result.
    pub(super) fn deferred(&self, job: &JobId) -> Result<Option<Deferred>, StoreError> {
        self.read(Table::PutOff, &rows::job(self.id, job))
    }

    /// Writes a deferred result that replaces `before`.
    fn defer(&mut self, job: &JobId, before: Option<&Deferred>, deferred: &Deferred) {
        if let Some(before) = before {
            self.delete(Table::PutOffDue, rows::timed(self.id, before.not_before, job));
        }
        self.put(Table::PutOff, rows::job(self.id, job), deferred);
        self.mark(Table::PutOffDue, rows::timed(self.id, deferred.not_before, job));
    }

    pub(super) fn forget_deferred(&mut self, job: &JobId) -> Result<(), StoreError> {
        if let Some(known) = self.deferred(job)? {
            self.delete(Table::PutOffDue, rows::timed(self.id, known.not_before, job));
            self.delete(Table::PutOff, rows::job(self.id, job));
        }
        Ok(())
    }

    /// The job's deferred result. Refuses a worker that now reports another outcome.
    fn first_result(
        &self,
        job: &JobId,
        fence: Fence,
        outcome: &JobOutcome,
    ) -> Result<Option<Deferred>, StoreError> {
        let known = self.deferred(job)?;
        if known.as_ref().is_some_and(|known| known.outcome.cause() != outcome.cause()) {
            return stale(fence, self.next_fence()?);
        }
        Ok(known)
    }
}

impl Decide for DeliverResult {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<DeliveryOutcome> {
        let mut draft = Draft::new(view, now, &self.tenant);
        if draft.lease_for_result(&self.job, self.fence, self.outcome.cause())?.is_none() {
            return Ok(Decision::unchanged(DeliveryOutcome::AlreadyRecorded));
        }
        draft.first_result(&self.job, self.fence, &self.outcome)?;
        let Some(free) = run_leases::free_run(view, now, &self.tenant, self.job.run)? else {
            return Ok(Decision::unchanged(DeliveryOutcome::Busy));
        };
        let event = draft.end_and_post(&self.job, self.outcome.clone())?;
        let mut acquired = draft.lease_run(free, &self.holder, self.lease)?;
        // What was posted just now is not in the view yet.
        if acquired.inbox.len() < inbox::DRAIN_MAX {
            acquired.inbox.push(event);
            acquired.inbox_end += 1;
        }
        Ok(draft.answer(DeliveryOutcome::Recorded(Box::new(acquired))))
    }
}

impl Decide for DeferResult {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<DeferOutcome> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let lease = draft.lease_for_result(&self.job, self.fence, self.outcome.cause())?;
        let Some(lease) = lease else { return Ok(Decision::unchanged(DeferOutcome::AlreadyRecorded)) };
        let known = draft.first_result(&self.job, self.fence, &self.outcome)?;
        // The same call again, or the worker that has not received the answer: the schedule stays as it is.
        if known.as_ref().is_some_and(|known| known.deliveries >= self.deliveries) {
            return Ok(Decision::unchanged(DeferOutcome::Deferred));
        }
        let not_before = now + self.delay;
        let deferred = Deferred {
            outcome: self.outcome.clone(),
            fence: self.fence,
            deliveries: self.deliveries,
            since: known.as_ref().map_or(now - self.waited, |known| known.since),
            not_before,
        };
        draft.defer(&self.job, known.as_ref(), &deferred);
        // The worker has reported, and sends no more heartbeats.
        let until = not_before + self.lease;
        if until > lease.expires_at {
            draft.move_lease(&self.job, lease, until);
        }
        Ok(draft.answer(DeferOutcome::Deferred))
    }
}

impl Decide for AcquireDeferredResults {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Vec<DeferredResult>> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let mut results = Vec::new();
        for row in draft.due(Table::PutOffDue, now, self.limit)? {
            let found = match rows::last_part(&row.key).parse::<JobId>() {
                Ok(job) => draft.deferred(&job)?.map(|known| (job, known)),
                Err(_) => None,
            };
            draft.delete(Table::PutOffDue, row.key);
            let Some((job, known)) = found else { continue };
            draft.defer(&job, None, &Deferred { not_before: now + IN_PROGRESS, ..known.clone() });
            let Deferred { outcome, fence, deliveries, since, .. } = known;
            results.push(DeferredResult { job, fence, outcome, deliveries, waited: now.since(since) });
        }
        Ok(draft.answer(results))
    }
}
