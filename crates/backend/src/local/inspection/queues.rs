//! Jobs and the queues that they wait in.

use interlock_model::JobId;
use interlock_model::dispatch_policy::Hold;
use interlock_model::job::Job;

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known};

/// Where the job waits, should no worker have it.
fn place(look: &Inspection<'_>, job: &Job) -> String {
    rows::queued(look.tenant, &job.new, job.created_at)
}

pub(super) fn in_none(look: &Inspection<'_>, job: &JobId) -> Checked {
    let Some(open) = look.open_job(job)? else { return Ok(None) };
    match look.read::<Hold>(Table::Held, &rows::job(look.tenant, job))? {
        Known::Is(hold) => return held_for_ever(look, job, &hold),
        Known::Unreadable => return Ok(None),
        Known::Absent => {}
    }
    let queued = place(look, &open);
    let is_somewhere = look.is_there(Table::Queue, &queued)?
        || look.is_there(Table::JobLeases, &rows::job(look.tenant, job))?;
    // A job of a run that has ended is to be ended, not queued.
    if is_somewhere || look.run_state(job.run)?.why_over().is_some() {
        return Ok(None);
    }
    let detail = format!("the job is open, no worker has it, and it is not in the queue {}", open.new.topic);
    look.fault(detail, |draft| draft.mark(Table::Queue, queued))
}

/// A job that a policy holds is due again at some time, unless it waits for an approval.
fn held_for_ever(look: &Inspection<'_>, job: &JobId, hold: &Hold) -> Checked {
    let Some(at) = hold.look_at else { return Ok(None) };
    let due = rows::timed(look.tenant, at, job);
    if look.is_there(Table::HeldDue, &due)? || look.run_state(job.run)?.why_over().is_some() {
        return Ok(None);
    }
    look.fault("the job is held, and nobody would look at it again", |draft| draft.mark(Table::HeldDue, due))
}

pub(super) fn without_job(look: &Inspection<'_>, job: &JobId) -> Checked {
    let (why, right_place) = match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Absent => ("is not there", None),
        Known::Is(known) if known.end.is_some() => ("has ended", None),
        Known::Is(_) if look.is_there(Table::JobLeases, &rows::job(look.tenant, job))? => {
            ("a worker has already", None)
        }
        Known::Is(_) if look.is_there(Table::Held, &rows::job(look.tenant, job))? => {
            ("the dispatch policy holds", None)
        }
        Known::Is(open) => ("waits elsewhere", Some(place(look, &open))),
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
