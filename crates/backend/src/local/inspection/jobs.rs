//! Jobs: their list, their queues, their leases and their deferred results.

use interlock_model::JobId;
use interlock_model::dispatch_policy::{Hold, HoldReason};
use interlock_model::job::{EndCause, JobLease};

use super::super::deliveries::DeferredRow;
use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known};

pub(super) fn not_listed(look: &Inspection<'_>, job: &JobId) -> Checked {
    let Known::Is(known) = look.job(job)? else { return Ok(None) };
    let listed = rows::timed(look.tenant, known.created_at, job);
    look.missing(Table::JobListing, listed, "the job is in no list".to_owned())
}

pub(super) fn of_ended_run(look: &Inspection<'_>, job: &JobId) -> Checked {
    if look.open_job(job)?.is_none() || look.tenant_row()?.is_none() {
        return Ok(None);
    }
    let Some(why) = look.run_state(job.run)?.why_over() else { return Ok(None) };
    look.try_fault(format!("the job is open, and {why}"), |draft| draft.end_job(job, EndCause::Revoked))
}

pub(super) fn in_no_index(look: &Inspection<'_>, job: &JobId) -> Checked {
    let Some(open) = look.open_job(job)? else { return Ok(None) };
    let key = rows::job(look.tenant, job);
    // A job of a run that has ended is to be ended, not queued.
    if look.has(Table::JobLeases, &key)? || look.run_state(job.run)?.why_over().is_some() {
        return Ok(None);
    }
    if let Some(until) = open.new.queue_until {
        let timeout = rows::timed(look.tenant, until, job);
        if !look.has(Table::QueueTimeouts, &timeout)? {
            let detail = "no worker has claimed the job, and no time is set to end its wait";
            return look.missing(Table::QueueTimeouts, timeout, detail.to_owned());
        }
    }
    match look.read::<Hold>(Table::Held, &key)? {
        Known::Is(Hold { look_at: Some(at), .. }) => {
            let detail = "the policy holds the job, and no time is set to look at it again";
            look.missing(Table::HeldDue, rows::timed(look.tenant, at, job), detail.to_owned())
        }
        Known::Absent => {
            let queued = rows::queued(look.tenant, &open.new, open.created_at);
            if look.has(Table::Queue, &queued)? {
                return Ok(None);
            }
            let topic = &open.new.topic;
            let detail = format!("the job is open, no worker has it, and it is not in the queue {topic}");
            look.fault(detail, |draft| draft.release(&open, HoldReason::BudgetPending))
        }
        // It waits for an approval.
        Known::Is(Hold { look_at: None, .. }) | Known::Unreadable => Ok(None),
    }
}

pub(super) fn queued_without_job(look: &Inspection<'_>, job: &JobId) -> Checked {
    let key = rows::job(look.tenant, job);
    let (why, right_place) = match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Absent => ("does not exist", None),
        Known::Is(known) if known.end.is_some() => ("has ended", None),
        Known::Is(_) if look.has(Table::JobLeases, &key)? => ("a worker has already", None),
        Known::Is(_) if look.has(Table::Held, &key)? => ("the dispatch policy holds", None),
        Known::Is(open) => ("waits elsewhere", Some(rows::queued(look.tenant, &open.new, open.created_at))),
    };
    let mut entries = look.keys_of(Table::Queue, &job.to_string())?;
    entries.retain(|entry| Some(entry) != right_place.as_ref());
    if entries.is_empty() {
        return Ok(None);
    }
    look.fault(format!("an entry of a queue is for the job, which {why}"), |draft| {
        draft.delete_all(Table::Queue, entries);
    })
}

pub(super) fn lease_without_job(look: &Inspection<'_>, job: &JobId) -> Checked {
    let why = match look.job(job)? {
        Known::Absent => "does not exist",
        Known::Is(known) if known.end.is_some() => "has ended",
        Known::Is(_) | Known::Unreadable => return Ok(None),
    };
    let key = rows::job(look.tenant, job);
    let lease: Known<JobLease> = look.read(Table::JobLeases, &key)?;
    let expiries = look.keys_of(Table::JobExpiries, &job.to_string())?;
    let is_found_at_its_lease = look.at.is_some_and(|(table, _)| table == Table::JobExpiries);
    let worker = match lease {
        Known::Unreadable => return Ok(None),
        Known::Is(_) if is_found_at_its_lease => return Ok(None),
        Known::Absent if expiries.is_empty() => return Ok(None),
        Known::Is(lease) => format!("worker {}", lease.worker),
        Known::Absent => "an unknown worker".to_owned(),
    };
    look.fault(format!("{worker} has a lease on the job, which {why}"), |draft| {
        draft.delete(Table::JobLeases, key);
        draft.delete_all(Table::JobExpiries, expiries);
    })
}

pub(super) fn lease_not_indexed(look: &Inspection<'_>, job: &JobId) -> Checked {
    let lease: Known<JobLease> = look.read(Table::JobLeases, &rows::job(look.tenant, job))?;
    let Known::Is(JobLease { worker, expires_at, .. }) = lease else { return Ok(None) };
    if look.open_job(job)?.is_none() {
        return Ok(None);
    }
    let detail = format!("the lease of worker {worker}, which expires at {expires_at}, is in no index");
    look.missing(Table::JobExpiries, rows::timed(look.tenant, expires_at, job), detail)
}

pub(super) fn result_not_due(look: &Inspection<'_>, job: &JobId) -> Checked {
    let key = rows::job(look.tenant, job);
    let Known::Is(mut deferred) = look.read::<DeferredRow>(Table::Deferred, &key)? else { return Ok(None) };
    match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Is(known) if known.end.is_none() => {}
        Known::Is(_) | Known::Absent => {
            let detail = "a result is deferred, and its job no longer waits for it";
            return look.try_fault(detail, |draft| draft.forget_deferred(job));
        }
    }
    if look.has(Table::DeferredDue, &rows::timed(look.tenant, deferred.not_before, job))? {
        return Ok(None);
    }
    look.fault("a result is deferred, and no time is set to deliver it", |draft| {
        draft.mark(Table::DeferredDue, rows::timed(look.tenant, look.now, job));
        deferred.not_before = look.now;
        draft.put(Table::Deferred, key, &deferred);
    })
}
