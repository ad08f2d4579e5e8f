//! Jobs: dispatched, reported on by their workers under a fence, ended once.

use std::time::Duration;

use interlock_model::budget::{JobUsage, PermitEnd};
use interlock_model::dispatch_policy::Hold;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, Job, JobEnd, JobLease, JobOutcome, JobState, NewJob};
use interlock_model::run::InboxEvent;
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, JobId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::budgets::EndedPermit;
use super::draft::{Draft, decide};
use super::rows;
use super::store::look;
use super::tables::{Pick, Table, View, newest_page, read};
use crate::StoreError;
use crate::jobs::{Heartbeat, JOBS_BEFORE_MAX, JobView, LeaseTerm, OTHER_EDGE, PROGRESS_ROWS_MAX, Report};
use crate::reconcile::LOOKED_AT_MAX;
use crate::verbs::{
    CancelJob, CountJobsBefore, ExtendJobLease, ListJobs, ReadJob, RecordProgress, RecordResult,
};

/// What a call of a worker finds of its job.
enum LeaseCheck {
    /// The caller has the lease.
    Leased(JobLease),
    /// The job ended while the caller had the lease.
    Ended(JobEnd),
}

decide!(ExtendJobLease, |verb, draft| {
    let lease = match draft.check_lease(&verb.job, verb.fence)? {
        LeaseCheck::Leased(lease) => lease,
        LeaseCheck::Ended(JobEnd {
            cause: EndCause::Revoked | EndCause::Cancelled | EndCause::TimedOut,
            ..
        }) => return Ok(Heartbeat::CancelRequested),
        LeaseCheck::Ended(end) => return stale(verb.fence, end.fence),
    };
    let key = rows::job(&verb.tenant, &verb.job);
    let ttl = verb.term.unwrap_or(LeaseTerm::For(lease.ttl)).of(lease.deadline_at, draft.now);
    let mut expires_at = draft.now + ttl;
    if draft.has(Table::Deferred, &key)? {
        // The result is deferred: a last heartbeat must not shorten the time that it was given.
        expires_at = expires_at.max(lease.expires_at);
    }
    draft.see_heartbeat(&lease.worker)?;
    draft.move_lease(&verb.job, JobLease { ttl, ..lease }, expires_at);
    Ok(Heartbeat::Extended { lease: ttl, expires_at })
});

decide!(RecordProgress, |verb, draft| {
    if let LeaseCheck::Ended(end) = draft.check_lease(&verb.job, verb.fence)? {
        return stale(verb.fence, end.fence);
    }
    let key = rows::job(&verb.tenant, &verb.job);
    let last: Option<ProgressRow> = draft.read(Table::JobProgress, &key)?;
    let next = draft.next_event(verb.job.run)?;
    let row = match last.filter(|row| draft.now < row.since + PROGRESS_PERIOD) {
        Some(row) => row,
        None if next <= PROGRESS_ROWS_MAX => ProgressRow { number: next, since: draft.now },
        None => match last {
            Some(last) => ProgressRow { since: draft.now, ..last },
            None => return Ok(()),
        },
    };
    let event = Event::new(row.since, EventKind::StepProgress).of_job(&verb.job);
    let event = event.with_data(json!({"percent": verb.progress.percent}));
    let event = Event { message: verb.progress.message.clone(), ..event };
    draft.put(Table::Timeline, rows::numbered(draft.id, verb.job.run, row.number), &event);
    draft.put(Table::JobProgress, key, &row);
    Ok(())
});

/// Where the progress of a job is in the timeline of its run. What is reported within a period replaces what was reported
/// before, so that a talkative worker does not fill the timeline.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ProgressRow {
    number: u64,
    since: Timestamp,
}

const PROGRESS_PERIOD: Duration = Duration::from_secs(1);

decide!(RecordResult, |verb, draft| {
    if draft.lease_for_result(&verb.job, (verb.fence, verb.edge), &verb.outcome)?.is_none() {
        return Ok(Report::AlreadyRecorded);
    }
    draft.end_and_post(&verb.job, verb.outcome.clone())?;
    Ok(Report::Recorded)
});

decide!(CancelJob, |verb, draft| {
    let found = view_job(draft.view, &verb.tenant, &verb.job)?;
    let found = found.ok_or_else(|| StoreError::not_found("job", &verb.job))?;
    if found.job.end.is_some() {
        return Ok(found.state);
    }
    draft.end_and_post(&verb.job, JobOutcome::Cancelled { by: verb.by.clone() })?;
    Ok(JobState::Cancelled)
});

impl Draft<'_> {
    /// Puts a new job into the queue of its topic and kind.
    pub(super) fn dispatch(&mut self, new: &NewJob) {
        let job = self.write_job(new);
        self.enqueue(&job);
    }

    /// Writes a new job, in no queue yet.
    pub(super) fn write_job(&mut self, new: &NewJob) -> Job {
        let job = Job { new: new.clone(), created_at: self.now, permit: None, end: None };
        self.mark(Table::JobListing, rows::timed(self.id, self.now, &new.id));
        self.put(Table::Jobs, rows::job(self.id, &new.id), &job);
        if let Some(until) = new.queue_until {
            self.mark(Table::QueueTimeouts, rows::timed(self.id, until, &new.id));
        }
        job
    }

    /// The job waits for a worker no more.
    pub(super) fn forget_queue_timeout(&mut self, job: &NewJob) {
        if let Some(until) = job.queue_until {
            self.delete(Table::QueueTimeouts, rows::timed(self.id, until, &job.id));
        }
    }

    /// Puts an open job into the queue of its topic and kind, at the place that its age and its priority give it.
    pub(super) fn enqueue(&mut self, job: &Job) {
        self.mark(Table::Queue, rows::queued(self.id, &job.new, job.created_at));
    }

    /// Compares the caller's fence with the store's. Anything but the latest is refused.
    fn check_lease(&self, job: &JobId, fence: Fence) -> Result<LeaseCheck, StoreError> {
        let key = rows::job(self.id, job);
        let found: Job = self.require(Table::Jobs, &key, ("job", job))?;
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
        (fence, edge): (Fence, Option<Edge>),
        outcome: &JobOutcome,
    ) -> Result<Option<JobLease>, StoreError> {
        match self.check_lease(job, fence)? {
            LeaseCheck::Ended(end) if end.is_of(outcome) => Ok(None),
            LeaseCheck::Ended(end) => stale(fence, end.fence),
            LeaseCheck::Leased(lease) if edge.is_some_and(|edge| !lease.was_given_over(edge)) => {
                Err(StoreError::Conflict(OTHER_EDGE.to_owned()))
            }
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
        self.end_job_by(job, &outcome)?;
        let event = InboxEvent::Job { at: self.now, job: job.clone(), outcome };
        self.post(job.run, std::slice::from_ref(&event))?;
        Ok(event)
    }

    /// Ends a job, if it is open: its fence is raised, so that its worker can write no more.
    pub(super) fn end_job(&mut self, job: &JobId, cause: EndCause) -> Result<(), StoreError> {
        self.end_open_job(job, cause, (None, None))
    }

    /// The same, and keeps what is needed to know the outcome again.
    pub(super) fn end_job_by(&mut self, job: &JobId, outcome: &JobOutcome) -> Result<(), StoreError> {
        self.end_open_job(job, outcome.cause(), (outcome.fingerprint(), outcome.usage()))
    }

    fn end_open_job(
        &mut self,
        job: &JobId,
        cause: EndCause,
        (result, usage): (Option<Fingerprint>, Option<&JobUsage>),
    ) -> Result<(), StoreError> {
        let (key, at) = (rows::job(self.id, job), self.now);
        let found: Option<Job> = self.read(Table::Jobs, &key)?;
        let Some(open) = found.filter(|job| job.end.is_none()) else { return Ok(()) };
        self.forget_deferred(job)?;
        if self.forget_hold(job)?.is_some_and(|hold| hold.reason.is_approval()) {
            self.withdraw_approval(job)?;
        }
        let lease: Option<JobLease> = self.read(Table::JobLeases, &key)?;
        self.end_permit_of(&open, lease.is_some(), usage);
        let fence = self.mint_fence()?;
        let end = if let Some(lease) = lease {
            self.delete(Table::JobLeases, key.clone());
            self.delete(Table::JobProgress, key.clone());
            self.delete(Table::JobExpiries, rows::timed(self.id, lease.expires_at, job));
            JobEnd { cause, at, held: lease.fence, fence, worker: Some(lease.worker), result }
        } else {
            self.delete(Table::Queue, rows::queued(self.id, &open.new, open.created_at));
            self.forget_queue_timeout(&open.new);
            JobEnd { cause, at, held: Fence::NONE, fence, worker: None, result }
        };
        self.put(Table::Jobs, key, &Job { end: Some(end), ..open });
        Ok(())
    }
}

impl Draft<'_> {
    /// Counts what the job had reserved, with the rest of this decision.
    pub(super) fn end_permit_of(&mut self, job: &Job, was_claimed: bool, usage: Option<&JobUsage>) {
        let Some((budget, permit)) = job.new.budget.as_ref().zip(job.permit.clone()) else { return };
        let spent = usage.and_then(|usage| usage.get(&budget.name)).copied();
        let end = PermitEnd::of(was_claimed, spent);
        self.ended_permits.push(EndedPermit { budget: budget.name.clone(), permit, end });
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

look!(CountJobsBefore, |verb, view| {
    let id = &verb.tenant;
    let Some(Job { new, created_at, .. }) = read(view, Table::Jobs, &rows::job(id, &verb.job))? else {
        return Ok(None);
    };
    let place = rows::queued(id, &new, created_at);
    if view.get(Table::Queue, &place)?.is_none() {
        return Ok(None);
    }
    let first = rows::queue(id, &new.topic, &new.kind());
    Ok(Some(view.scan(Table::Queue, &first, &place, Pick::First(JOBS_BEFORE_MAX))?.len()))
});

look!(ListJobs, |verb, view| {
    let id = &verb.tenant;
    newest_page(view, Table::JobListing, (id, &verb.page), LOOKED_AT_MAX, |row| {
        let Ok(job) = rows::last_part(&row.key).parse() else { return Ok(None) };
        Ok(view_job(view, id, &job)?.filter(|found| verb.state.is_none_or(|state| state == found.state)))
    })
});

look!(ReadJob, |verb, view| view_job(view, &verb.tenant, &verb.job));
