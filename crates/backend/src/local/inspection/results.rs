//! Results that are kept for another delivery.

use interlock_model::JobId;

use super::super::deliveries::{self, Waiting};
use super::super::rows;
use super::super::tables::{Changes, Table};
use super::{Fault, Known, Look};
use crate::StoreError;

pub(super) fn not_due(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let key = rows::job(look.tenant, job);
    let Known::Is(mut kept) = look.read::<Waiting>(Table::PutOff, &key)? else { return Ok(None) };
    let mut changes = Changes::default();
    match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Is(known) if known.end.is_none() => {}
        Known::Is(_) | Known::Absent => {
            deliveries::forget(look.view, &mut changes, look.tenant, job)?;
            let detail = "a result is kept for a job that does not wait for it any more";
            return Ok(Some(Fault::new(detail, changes)));
        }
    }
    if look.is_there(Table::PutOffDue, &rows::expiry(look.tenant, kept.not_before, job))? {
        return Ok(None);
    }
    changes.mark(Table::PutOffDue, rows::expiry(look.tenant, look.now, job));
    kept.not_before = look.now;
    changes.put(Table::PutOff, key, &kept);
    Ok(Some(Fault::new("a result is kept for another delivery, which has no time", changes)))
}
