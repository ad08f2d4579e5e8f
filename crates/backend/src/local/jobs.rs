//! Jobs: dispatched, reported on by their workers under a fence, ended once.

use interlock_model::dispatch_policy::{Hold, HoldReason};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, Job, JobEnd, JobLease, JobOutcome, JobState, NewJob};
use interlock_model::run::InboxEvent;
use interlock_model::{Fence, JobId, TenantId, Timestamp};
use serde_json::json;

use super::draft::Draft;
use super::rows;
use super::store::{Decide, Look};
use super::tables::{Decided, Decision, Pick, Table, View, read, start_of_page};
use crate::jobs::{Heartbeat, JOBS_BEFORE_MAX, JobView, Report};
use crate::verbs::{
    CancelJob, CountJobsBefore, ExtendJobLease, ListJobs, ReadJob, RecordProgress, RecordResult,
};
use crate::{Page, StoreError};

/// Rows that one page of a filtered list may look at.
const LOOKED_AT_MAX: usize = 5_000;

/// What a call of a worker finds of its job.
enum LeaseCheck {
    /// The caller has the lease.
    Leased(JobLease),
    /// The job ended while the caller had the lease.
    Ended(JobEnd),
}

impl Decide for ExtendJobLease {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Heartbeat> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let lease = match draft.check_lease(&self.job, self.fence)? {
            LeaseCheck::Leased(lease) => lease,
            LeaseCheck::Ended(end) => match end.cause {
                EndCause::Revoked | EndCause::Cancelled => {
                    return Ok(Decision::unchanged(Heartbeat::CancelRequested));
                }
                EndCause::Completed | EndCause::Failed | EndCause::Lost | EndCause::Denied => {
                    return stale(self.fence, end.fence);
                }
            },
        };
        let key = rows::job(&self.tenant, &self.job);
        let ttl = match self.term {
            None => lease.ttl,
            Some(term) => {
                let job: Option<Job> = draft.read(Table::Jobs, &key)?;
                term.of(job.and_then(|job| job.new.deadline_at), now)
            }
        };
        let mut expires_at = now + ttl;
        if draft.has(Table::PutOff, &key)? {
            // The result is deferred: a last heartbeat must not shorten the time that it was given.
            expires_at = expires_at.max(lease.expires_at);
        }
        draft.see_heartbeat(&lease.worker)?;
        draft.move_lease(&self.job, JobLease { ttl, ..lease }, expires_at);
        Ok(draft.answer(Heartbeat::Extended { lease: ttl, expires_at }))
    }
}

impl Decide for RecordProgress {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        let mut draft = Draft::new(view, now, &self.tenant);
        if let LeaseCheck::Ended(end) = draft.check_lease(&self.job, self.fence)? {
            return stale(self.fence, end.fence);
        }
        let event = Event::new(now, EventKind::StepProgress).of_job(&self.job);
        let event = event.with_data(json!({"percent": self.progress.percent}));
        let event = Event { message: self.progress.message.clone(), ..event };
        draft.append_events(self.job.run, &[event])?;
        Ok(draft.answer(()))
    }
}

impl Decide for RecordResult {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Report> {
        let mut draft = Draft::new(view, now, &self.tenant);
        if draft.lease_for_result(&self.job, self.fence, self.outcome.cause())?.is_none() {
            return Ok(Decision::unchanged(Report::AlreadyRecorded));
        }
        draft.end_and_post(&self.job, self.outcome.clone())?;
        Ok(draft.answer(Report::Recorded))
    }
}

impl Decide for CancelJob {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<JobState> {
        let found = view_job(view, &self.tenant, &self.job)?;
        let found = found.ok_or_else(|| StoreError::not_found("job", &self.job))?;
        if found.job.end.is_some() {
            return Ok(Decision::unchanged(found.state));
        }
        let mut draft = Draft::new(view, now, &self.tenant);
        draft.end_and_post(&self.job, JobOutcome::Cancelled { by: self.by.clone() })?;
        Ok(draft.answer(JobState::Cancelled))
    }
}

impl Draft<'_> {
    /// Puts a new job into the queue of its topic and kind.
    pub(super) fn dispatch(&mut self, new: &NewJob) {
        let job = self.write_job(new);
        self.enqueue(&job);
    }

    /// Writes a new job, in no queue yet.
    pub(super) fn write_job(&mut self, new: &NewJob) -> Job {
        let job = Job { new: new.clone(), created_at: self.now, end: None };
        self.mark(Table::JobListing, rows::timed(self.id, self.now, &new.id));
        self.put(Table::Jobs, rows::job(self.id, &new.id), &job);
        job
    }

    /// Puts an open job into the queue of its topic and kind, at the place that its age and its priority give it.
    pub(super) fn enqueue(&mut self, job: &Job) {
        self.mark(Table::Queue, rows::queued(self.id, &job.new, job.created_at));
    }

    /// Compares the caller's fence with the store's. Anything but the latest is refused.
    fn check_lease(&self, job: &JobId, fence: Fence) -> Result<LeaseCheck, StoreError> {
        let key = rows::job(self.id, job);
        let found: Option<Job> = self.read(Table::Jobs, &key)?;
        let found = found.ok_or_else(|| StoreError::not_found("job", job))?;
        if let Some(end) = found.end {
            return if end.held == fence && fence != Fence::NONE {
                Ok(LeaseCheck::Ended(end))
            } else {
                stale(fence, end.fence)
            };
        }
        match self.read::<JobLease>(Table::JobLeases, &key)? {
            None => stale(fence, Fence::NONE),
            Some(lease) if lease.fence != fence => stale(fence, lease.fence),
            // It has expired, though no stage has noticed yet: the next fence is already another worker's.
            Some(lease) if lease.expires_at <= self.now => stale(fence, self.next_fence()?),
            Some(lease) => Ok(LeaseCheck::Leased(lease)),
        }
    }

    /// The fence that would be minted next.
    pub(super) fn next_fence(&self) -> Result<Fence, StoreError> {
        Ok(super::slots::tenant(self.view, self.id)?.fence.next(self.now))
    }

    /// The lease under which a result may end the job so. None: the same result was recorded before.
    pub(super) fn lease_for_result(
        &self,
        job: &JobId,
        fence: Fence,
        cause: EndCause,
    ) -> Result<Option<JobLease>, StoreError> {
        match self.check_lease(job, fence)? {
            LeaseCheck::Ended(end) if end.cause == cause => Ok(None),
            LeaseCheck::Ended(end) => stale(fence, end.fence),
            LeaseCheck::Leased(lease) => Ok(Some(lease)),
        }
    }

    pub(super) fn move_lease(&mut self, job: &JobId, lease: JobLease, expires_at: Timestamp) {
        self.delete(Table::JobExpiries, rows::timed(self.id, lease.expires_at, job));
        self.mark(Table::JobExpiries, rows::timed(self.id, expires_at, job));
        self.put(Table::JobLeases, rows::job(self.id, job), &JobLease { expires_at, ..lease });
    }

    /// Ends the job and posts the outcome to its run. Returns what was posted.
    pub(super) fn end_and_post(
        &mut self,
        job: &JobId,
        outcome: JobOutcome,
    ) -> Result<InboxEvent, StoreError> {
        self.end_job(job, outcome.cause())?;
        let event = InboxEvent::Job { at: self.now, job: job.clone(), outcome };
        self.post(job.run, std::slice::from_ref(&event))?;
        Ok(event)
    }

    /// Ends a job, if it is open: its fence is raised, so that its worker can write no more.
    pub(super) fn end_job(&mut self, job: &JobId, cause: EndCause) -> Result<(), StoreError> {
        let (key, at) = (rows::job(self.id, job), self.now);
        let found: Option<Job> = self.read(Table::Jobs, &key)?;
        let Some(open) = found.filter(|job| job.end.is_none()) else { return Ok(()) };
        self.forget_deferred(job)?;
        if self.forget_hold(job)?.is_some_and(|hold| hold.reason == HoldReason::Approval) {
            self.withdraw_approval(job)?;
        }
        let lease: Option<JobLease> = self.read(Table::JobLeases, &key)?;
        let fence = self.mint_fence()?;
        let end = if let Some(lease) = lease {
            self.delete(Table::JobLeases, key.clone());
            self.delete(Table::JobExpiries, rows::timed(self.id, lease.expires_at, job));
            JobEnd { cause, at, held: lease.fence, fence, worker: Some(lease.worker) }
        } else {
            self.delete(Table::Queue, rows::queued(self.id, &open.new, open.created_at));
            JobEnd { cause, at, held: Fence::NONE, fence, worker: None }
        };
        self.put(Table::Jobs, key, &Job { end: Some(end), ..open });
        Ok(())
    }
}

pub(super) fn stale<T>(held: Fence, current: Fence) -> Result<T, StoreError> {
    Err(StoreError::Fenced { held, current })
}

fn view_job(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Option<JobView>, StoreError> {
    let key = rows::job(id, job);
    let Some(job) = read::<Job>(view, Table::Jobs, &key)? else { return Ok(None) };
    let lease: Option<JobLease> = read(view, Table::JobLeases, &key)?;
    let hold: Option<Hold> = read(view, Table::Held, &key)?;
    let state = JobState::of(&job, lease.as_ref(), hold.as_ref());
    Ok(Some(JobView { job, lease, hold, state }))
}

impl Look for CountJobsBefore {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<usize>, StoreError> {
        let id = &self.tenant;
        let Some(Job { new, created_at, .. }) = read(view, Table::Jobs, &rows::job(id, &self.job))? else {
            return Ok(None);
        };
        let place = rows::queued(id, &new, created_at);
        if view.get(Table::Queue, &place)?.is_none() {
            return Ok(None);
        }
        let first = rows::queue(id, &new.topic, &new.kind());
        Ok(Some(view.scan(Table::Queue, &first, &place, Pick::First(JOBS_BEFORE_MAX))?.len()))
    }
}

impl Look for ListJobs {
    /// Newest first. A page looks at a bounded number of rows, so that a rare state still ends.
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<JobView>, StoreError> {
        let id = &self.tenant;
        let until = start_of_page(id, &self.page);
        let rows =
            view.scan(Table::JobListing, &rows::of_tenant(id), &until, Pick::Last(LOOKED_AT_MAX + 1))?;
        let mut items = Vec::new();
        let mut last = None;
        for (position, row) in rows.iter().enumerate() {
            if items.len() == self.page.limit || position == LOOKED_AT_MAX {
                return Ok(Page { items, next: last });
            }
            last = rows::after_tenant(&row.key).map(str::to_owned);
            let Ok(job) = rows::last_part(&row.key).parse() else { continue };
            let found = view_job(view, id, &job)?;
            items.extend(found.filter(|found| self.state.is_none_or(|state| state == found.state)));
        }
        Ok(Page { items, next: None })
    }
}

impl Look for ReadJob {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<JobView>, StoreError> {
        view_job(view, &self.tenant, &self.job)
    }
}
