//! Deferred results.

use interlock_model::JobId;

use super::super::deliveries::Deferred;
use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known};

pub(super) fn not_due(look: &Inspection<'_>, job: &JobId) -> Checked {
    let key = rows::job(look.tenant, job);
    let Known::Is(mut deferred) = look.read::<Deferred>(Table::PutOff, &key)? else { return Ok(None) };
    match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Is(known) if known.end.is_none() => {}
        Known::Is(_) | Known::Absent => {
            let detail = "a result is kept for a job that does not wait for it any more";
            return look.try_fault(detail, |draft| draft.forget_deferred(job));
        }
    }
    if look.is_there(Table::PutOffDue, &rows::timed(look.tenant, deferred.not_before, job))? {
        return Ok(None);
    }
    look.fault("a result is kept for another delivery, which has no time", |draft| {
        draft.mark(Table::PutOffDue, rows::timed(look.tenant, look.now, job));
        deferred.not_before = look.now;
        draft.put(Table::PutOff, key, &deferred);
    })
}
