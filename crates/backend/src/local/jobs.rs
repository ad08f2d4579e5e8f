//! What a worker says about its job. Every word carries the fence.

use interlock_model::dispatch_policy::Hold;
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, Job, JobEnd, JobLease, JobOutcome, JobState};
use interlock_model::run::InboxEvent;
use interlock_model::{Fence, JobId, TenantId, Timestamp};
use serde_json::json;

use super::commit::end_job;
use super::rows;
use super::tables::{Changes, Decision, Pick, Table, View, read};
use super::{history, inbox, runs, slots, workers};
use crate::jobs::{Heartbeat, JOBS_BEFORE_MAX, JobView, LeaseTerm, Progress, Report};
use crate::{Page, PageRequest, StoreError};

/// Rows that one page of a filtered list may look at.
const LOOKED_AT_MAX: usize = 5_000;

/// A job as one of its worker's calls finds it.
pub(super) enum Standing {
    /// The caller holds it.
    Held(JobLease),
    /// It ended while the caller held it.
    Ended(JobEnd),
}

pub(super) fn heartbeat(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    fence: Fence,
    term: Option<LeaseTerm>,
) -> Result<Decision<Heartbeat>, StoreError> {
    match standing(view, now, (id, job), fence)? {
        Standing::Ended(end) => match end.cause {
            EndCause::Revoked | EndCause::Cancelled => Ok(Decision::unchanged(Heartbeat::CancelRequested)),
            EndCause::Completed | EndCause::Failed | EndCause::Lost | EndCause::Denied => {
                stale(fence, end.fence)
            }
        },
        Standing::Held(lease) => {
            let mut changes = Changes::default();
            let ttl = match term {
                None => lease.ttl,
                Some(term) => {
                    let held: Option<Job> = read(view, Table::Jobs, &rows::job(id, job))?;
                    term.of(held.and_then(|held| held.new.deadline_at), now)
                }
            };
            let mut expires_at = now + ttl;
            if view.get(Table::PutOff, &rows::job(id, job))?.is_some() {
                // Its worker has said all that it has to say; a last beat must not end the time that its word was given.
                expires_at = expires_at.max(lease.expires_at);
            }
            let extended = JobLease { ttl, expires_at, ..lease.clone() };
            changes.delete(Table::JobExpiries, rows::expiry(id, lease.expires_at, job));
            changes.mark(Table::JobExpiries, rows::expiry(id, extended.expires_at, job));
            changes.put(Table::JobLeases, rows::job(id, job), &extended);
            workers::heard(view, &mut changes, (id, &extended.worker), now)?;
            let answer = Heartbeat::Extended { lease: extended.ttl, expires_at: extended.expires_at };
            Ok(Decision { answer, changes })
        }
    }
}

pub(super) fn progress(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    fence: Fence,
    progress: Progress,
) -> Result<Decision<()>, StoreError> {
    match standing(view, now, (id, job), fence)? {
        Standing::Ended(end) => stale(fence, end.fence),
        Standing::Held(_) => {
            let event = Event::new(now, EventKind::StepProgress).of_job(job);
            let event = event.with_data(json!({"percent": progress.percent}));
            let event = Event { message: progress.message, ..event };
            let mut changes = Changes::default();
            history::append(view, &mut changes, (id, job.run), vec![event])?;
            Ok(Decision { answer: (), changes })
        }
    }
}

pub(super) fn report(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    fence: Fence,
    outcome: JobOutcome,
) -> Result<Decision<Report>, StoreError> {
    if undecided(view, now, (id, job), (fence, outcome.cause()))?.is_none() {
        return Ok(Decision::unchanged(Report::AlreadyRecorded));
    }
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    end_job(view, &mut changes, (id, &mut tenant), job, (outcome.cause(), now))?;
    changes.put(Table::Tenants, id.as_str(), &tenant);
    let event = InboxEvent::Job { at: now, job: job.clone(), outcome };
    inbox::post(view, &mut changes, (id, job.run), &[event])?;
    Ok(Decision { answer: Report::Recorded, changes })
}

/// The lease under which a result may end the job so. None: the same result was recorded before.
pub(super) fn undecided(
    view: &dyn View,
    now: Timestamp,
    job: (&TenantId, &JobId),
    (fence, cause): (Fence, EndCause),
) -> Result<Option<JobLease>, StoreError> {
    match standing(view, now, job, fence)? {
        Standing::Ended(end) if end.cause == cause => Ok(None),
        Standing::Ended(end) => stale(fence, end.fence),
        Standing::Held(lease) => Ok(Some(lease)),
    }
}

pub(super) fn cancel(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    by: &str,
) -> Result<Decision<JobState>, StoreError> {
    let found = view_job(view, id, job)?.ok_or_else(|| StoreError::not_found("job", job))?;
    if found.job.end.is_some() {
        return Ok(Decision::unchanged(found.state));
    }
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    end_job(view, &mut changes, (id, &mut tenant), job, (EndCause::Cancelled, now))?;
    changes.put(Table::Tenants, id.as_str(), &tenant);
    let outcome = JobOutcome::Cancelled { by: by.to_owned() };
    let event = InboxEvent::Job { at: now, job: job.clone(), outcome };
    inbox::post(view, &mut changes, (id, job.run), &[event])?;
    Ok(Decision { answer: JobState::Cancelled, changes })
}

/// Compares the caller's fence with the store's. Anything but the latest is refused.
pub(super) fn standing(
    view: &dyn View,
    now: Timestamp,
    (id, job): (&TenantId, &JobId),
    fence: Fence,
) -> Result<Standing, StoreError> {
    let found: Option<Job> = read(view, Table::Jobs, &rows::job(id, job))?;
    let found = found.ok_or_else(|| StoreError::not_found("job", job))?;
    if let Some(end) = found.end {
        return if end.held == fence && fence != Fence::NONE {
            Ok(Standing::Ended(end))
        } else {
            stale(fence, end.fence)
        };
    }
    let lease: Option<JobLease> = read(view, Table::JobLeases, &rows::job(id, job))?;
    match lease {
        None => stale(fence, Fence::NONE),
        Some(lease) if lease.fence != fence => stale(fence, lease.fence),
        // Its time is over, though nobody has noticed yet: the next fence is already somebody else's.
        Some(lease) if lease.expires_at <= now => stale(fence, slots::tenant(view, id)?.fence.next(now)),
        Some(lease) => Ok(Standing::Held(lease)),
    }
}

pub(super) fn stale<T>(held: Fence, current: Fence) -> Result<T, StoreError> {
    Err(StoreError::Fenced { held, current })
}

pub(super) fn view_job(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Option<JobView>, StoreError> {
    let key = rows::job(id, job);
    let Some(job) = read::<Job>(view, Table::Jobs, &key)? else { return Ok(None) };
    let lease: Option<JobLease> = read(view, Table::JobLeases, &key)?;
    let hold: Option<Hold> = read(view, Table::Held, &key)?;
    let state = JobState::of(&job, lease.as_ref(), hold.as_ref());
    Ok(Some(JobView { job, lease, hold, state }))
}

/// How many jobs stand before it in its queue; none if it does not wait.
pub(super) fn before(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Option<usize>, StoreError> {
    let Some(Job { new, created_at, .. }) = read(view, Table::Jobs, &rows::job(id, job))? else {
        return Ok(None);
    };
    let place = rows::queued(id, &new, created_at);
    if view.get(Table::Queue, &place)?.is_none() {
        return Ok(None);
    }
    let first = rows::queue(id, &new.topic, &new.kind());
    Ok(Some(view.scan(Table::Queue, &first, &place, Pick::First(JOBS_BEFORE_MAX))?.len()))
}

/// Newest first. A page looks at a bounded number of rows, so that a rare state still ends.
pub(super) fn list(
    view: &dyn View,
    id: &TenantId,
    state: Option<JobState>,
    page: &PageRequest,
) -> Result<Page<JobView>, StoreError> {
    let until = runs::page_end(id, page);
    let rows = view.scan(Table::JobListing, &rows::of_tenant(id), &until, Pick::Last(LOOKED_AT_MAX + 1))?;
    let mut items = Vec::new();
    let mut last = None;
    for (position, row) in rows.iter().enumerate() {
        if items.len() == page.limit || position == LOOKED_AT_MAX {
            return Ok(Page { items, next: last });
        }
        last = rows::after_tenant(&row.key).map(str::to_owned);
        let Ok(job) = rows::last_part(&row.key).parse() else { continue };
        let found = view_job(view, id, &job)?;
        items.extend(found.filter(|found| state.is_none_or(|state| state == found.state)));
    }
    Ok(Page { items, next: None })
}
