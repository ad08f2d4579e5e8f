//! Jobs and the queues that they wait in.

use interlock_model::JobId;
use interlock_model::dispatch_policy::Hold;
use interlock_model::job::Job;

use super::super::tables::{Changes, Table};
use super::super::{holds, rows};
use super::{Fault, Known, Look};
use crate::StoreError;

/// Where the job waits, should no worker have it.
fn place(look: &Look<'_>, job: &Job) -> String {
    rows::queued(look.tenant, &job.new, job.created_at)
}

pub(super) fn in_none(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let Some(open) = look.open_job(job)? else { return Ok(None) };
    if let Some(hold) = holds::of_job(look.view, look.tenant, job)? {
        return held_for_ever(look, job, &hold);
    }
    let queued = place(look, &open);
    let is_somewhere = look.is_there(Table::Queue, &queued)?
        || look.is_there(Table::JobLeases, &rows::job(look.tenant, job))?;
    // That of a run that is over is to be ended, not queued.
    if is_somewhere || look.standing(job.run)?.why_over().is_some() {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::Queue, queued);
    let detail = format!("the job is open, no worker has it, and it is not in the queue {}", open.new.topic);
    Ok(Some(Fault::new(detail, changes)))
}

/// A job that a policy holds is looked at again by itself, unless a person is asked.
fn held_for_ever(look: &Look<'_>, job: &JobId, hold: &Hold) -> Result<Option<Fault>, StoreError> {
    let Some(at) = hold.look_at else { return Ok(None) };
    let due = rows::expiry(look.tenant, at, job);
    if look.is_there(Table::HeldDue, &due)? || look.standing(job.run)?.why_over().is_some() {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::HeldDue, due);
    let detail = "the job is held, and nobody would look at it again".to_owned();
    Ok(Some(Fault::new(detail, changes)))
}

pub(super) fn without_job(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let (why, right_place) = match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Absent => ("is not there", None),
        Known::Is(known) if known.end.is_some() => ("has ended", None),
        Known::Is(_) if look.is_there(Table::JobLeases, &rows::job(look.tenant, job))? => {
            ("a worker has already", None)
        }
        Known::Is(open) => ("waits elsewhere", Some(place(look, &open))),
    };
    let mut entries = look.keys_of(Table::Queue, &job.to_string())?;
    entries.retain(|entry| Some(entry) != right_place.as_ref());
    if entries.is_empty() {
        return Ok(None);
    }
    let mut changes = Changes::default();
    for entry in entries {
        changes.delete(Table::Queue, entry);
    }
    Ok(Some(Fault::new(format!("an entry of a queue is for the job, which {why}"), changes)))
}
