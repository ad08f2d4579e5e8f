//! One turn of the engine, written in one step under its fence and version.

use interlock_model::approval::{Approval, ApprovalState};
use interlock_model::dispatch_policy::HoldReason;
use interlock_model::job::{EndCause, Job, JobEnd, JobLease, NewJob};
use interlock_model::run::Head;
use interlock_model::tenant::Tenant;
use interlock_model::{Fence, JobId, TenantId, Timestamp};

use super::rows::{self, RunLease};
use super::tables::{Changes, Decision, Pick, Table, View, read, scan_prefix};
use super::{dead_letters, deliveries, history, holds, slots};
use crate::StoreError;
use crate::runs::{Commit, Committed};

pub(super) fn commit(
    view: &dyn View,
    now: Timestamp,
    commit: Commit,
) -> Result<Decision<Committed>, StoreError> {
    let (id, run) = (&commit.tenant, commit.run);
    let before = check(view, &commit)?;
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    for (key, step) in &commit.steps {
        changes.put(Table::Steps, rows::step(id, run, key), step);
    }
    history::append(view, &mut changes, (id, run), commit.events)?;
    for job in &commit.dispatched {
        dispatch(&mut changes, id, now, job);
    }
    for held in &commit.held {
        holds::hold(&mut changes, id, now, held);
    }
    for job in &commit.revoked {
        end_job(view, &mut changes, (id, &mut tenant), job, (EndCause::Revoked, now))?;
    }
    for approval in &commit.approvals_opened {
        open_approval(&mut changes, id, approval);
    }
    for job in &commit.approvals_withdrawn {
        withdraw(view, &mut changes, id, job)?;
    }
    dead_letters::bury(view, &mut changes, (id, &mut tenant), &commit.buried, commit.letters_max)?;
    move_timer(&mut changes, &before, &commit.head, (id, run));
    if commit.head.status.is_final() && !before.status.is_final() {
        slots::give_back(view, &mut changes, (id, &mut tenant), run, now)?;
    }
    let has_more = drain(view, &mut changes, (id, run), commit.inbox_end)?;
    changes.put(Table::Tenants, id.as_str(), &tenant);
    let version = before.version + 1;
    let head = Head { version, fence: commit.fence, ..commit.head };
    changes.put(Table::Heads, rows::run(id, run), &head);
    changes.delete(Table::RunLeases, rows::run(id, run));
    Ok(Decision { answer: Committed { has_more, version }, changes })
}

/// Whether the run is still held under this fence and at this version. Returns where it stood.
fn check(view: &dyn View, commit: &Commit) -> Result<Head, StoreError> {
    let key = rows::run(&commit.tenant, commit.run);
    let head: Option<Head> = read(view, Table::Heads, &key)?;
    let Some(head) = head else { return Err(StoreError::not_found("run", commit.run)) };
    let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    let current = lease.map_or(head.fence, |lease| lease.fence);
    // Without a lease row the last writer has let go: whoever comes with its fence again is late, too.
    let is_held = current == commit.fence && head.fence < commit.fence;
    if !is_held || head.version != commit.version {
        return Err(StoreError::Fenced { held: commit.fence, current });
    }
    Ok(head)
}

/// Puts a new job into the queue of its topic and kind.
pub(super) fn dispatch(changes: &mut Changes, id: &TenantId, now: Timestamp, new: &NewJob) {
    let job = write_job(changes, id, now, new);
    enqueue(changes, id, &job);
}

/// Writes a new job down, in no queue yet.
pub(super) fn write_job(changes: &mut Changes, id: &TenantId, now: Timestamp, new: &NewJob) -> Job {
    let job = Job { new: new.clone(), created_at: now, end: None };
    changes.mark(Table::JobListing, rows::listed_job(id, now, &new.id));
    changes.put(Table::Jobs, rows::job(id, &new.id), &job);
    job
}

/// Puts an open job into the queue of its topic and kind, at the place that its age and its priority give it.
pub(super) fn enqueue(changes: &mut Changes, id: &TenantId, job: &Job) {
    changes.mark(Table::Queue, rows::queued(id, &job.new, job.created_at));
}

pub(super) fn open_approval(changes: &mut Changes, id: &TenantId, approval: &Approval) {
    changes.put(Table::Approvals, rows::job(id, &approval.job), approval);
    changes.mark(Table::OpenApprovals, rows::job(id, &approval.job));
}

/// Ends a job, if it is open: its fence is raised, so that its worker can write no more. Returns what ended.
pub(super) fn end_job(
    view: &dyn View,
    changes: &mut Changes,
    (id, tenant): (&TenantId, &mut Tenant),
    job: &JobId,
    (cause, now): (EndCause, Timestamp),
) -> Result<Option<JobEnd>, StoreError> {
    let key = rows::job(id, job);
    let found: Option<Job> = read(view, Table::Jobs, &key)?;
    let Some(open) = found.filter(|job| job.end.is_none()) else { return Ok(None) };
    deliveries::forget(view, changes, id, job)?;
    if holds::forget(view, changes, id, job)?.is_some_and(|hold| hold.reason == HoldReason::Approval) {
        withdraw(view, changes, id, job)?;
    }
    let lease: Option<JobLease> = read(view, Table::JobLeases, &key)?;
    let fence = tenant.mint_fence(now);
    let end = if let Some(lease) = lease {
        changes.delete(Table::JobLeases, key.clone());
        changes.delete(Table::JobExpiries, rows::expiry(id, lease.expires_at, job));
        JobEnd { cause, at: now, held: lease.fence, fence, worker: Some(lease.worker) }
    } else {
        changes.delete(Table::Queue, rows::queued(id, &open.new, open.created_at));
        JobEnd { cause, at: now, held: Fence::NONE, fence, worker: None }
    };
    changes.put(Table::Jobs, key, &Job { end: Some(end.clone()), ..open });
    Ok(Some(end))
}

fn withdraw(view: &dyn View, changes: &mut Changes, id: &TenantId, job: &JobId) -> Result<(), StoreError> {
    let key = rows::job(id, job);
    let approval: Option<Approval> = read(view, Table::Approvals, &key)?;
    if let Some(open) = approval.filter(|approval| approval.state == ApprovalState::Open) {
        changes.put(Table::Approvals, key.clone(), &Approval { state: ApprovalState::Withdrawn, ..open });
        changes.delete(Table::OpenApprovals, key);
    }
    Ok(())
}

/// A run has at most one timer: the earliest of all that may happen to it by itself.
fn move_timer(
    changes: &mut Changes,
    before: &Head,
    after: &Head,
    (id, run): (&TenantId, interlock_model::RunId),
) {
    if before.due_at == after.due_at && !after.status.is_final() {
        // It may have ripened into the ready mark that this commit clears, so it is written again.
        if let Some(at) = after.due_at {
            changes.mark(Table::Timers, rows::timer(id, at, run));
        }
        return;
    }
    if let Some(at) = before.due_at {
        changes.delete(Table::Timers, rows::timer(id, at, run));
    }
    if let Some(at) = after.due_at {
        changes.mark(Table::Timers, rows::timer(id, at, run));
    }
}

/// Removes what the turn took into account. Whether more has come since.
fn drain(
    view: &dyn View,
    changes: &mut Changes,
    (id, run): (&TenantId, interlock_model::RunId),
    end: u64,
) -> Result<bool, StoreError> {
    let waiting = scan_prefix(view, Table::Inbox, &rows::of_run(id, run), Pick::First(usize::MAX))?;
    let mut has_more = false;
    for row in waiting {
        if rows::last_part(&row.key).parse::<u64>().is_ok_and(|number| number <= end) {
            changes.delete(Table::Inbox, row.key);
        } else {
            has_more = true;
        }
    }
    if !has_more {
        changes.delete(Table::Ready, rows::run(id, run));
    }
    Ok(has_more)
}
