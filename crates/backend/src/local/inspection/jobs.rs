//! Jobs, their list and their runs.

use interlock_model::JobId;
use interlock_model::job::EndCause;

use super::super::tables::{Changes, Table};
use super::super::{commit, rows};
use super::{Fault, Known, Look};
use crate::StoreError;

pub(super) fn not_listed(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let Known::Is(known) = look.job(job)? else { return Ok(None) };
    let listed = rows::listed_job(look.tenant, known.created_at, job);
    if look.is_there(Table::JobListing, &listed)? {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::JobListing, listed);
    Ok(Some(Fault::new("the job is there and in no list", changes)))
}

pub(super) fn of_ended_run(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    if look.open_job(job)?.is_none() {
        return Ok(None);
    }
    let Some(why) = look.standing(job.run)?.why_over() else { return Ok(None) };
    let Some(mut tenant) = look.own_row()? else { return Ok(None) };
    let mut changes = Changes::default();
    let end = (EndCause::Revoked, look.now);
    commit::end_job(look.view, &mut changes, (look.tenant, &mut tenant), job, end)?;
    changes.put(Table::Tenants, look.tenant.as_str(), &tenant);
    Ok(Some(Fault::new(format!("the job is open, and {why}"), changes)))
}
