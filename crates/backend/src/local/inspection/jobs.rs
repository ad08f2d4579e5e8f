//! Jobs, their list and their runs.

use interlock_model::JobId;
use interlock_model::job::EndCause;

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known};

pub(super) fn not_listed(look: &Inspection<'_>, job: &JobId) -> Checked {
    let Known::Is(known) = look.job(job)? else { return Ok(None) };
    let listed = rows::timed(look.tenant, known.created_at, job);
    if look.is_there(Table::JobListing, &listed)? {
        return Ok(None);
    }
    look.fault("the job is there and in no list", |draft| draft.mark(Table::JobListing, listed))
}

pub(super) fn of_ended_run(look: &Inspection<'_>, job: &JobId) -> Checked {
    if look.open_job(job)?.is_none() || !look.is_tenant_readable()? {
        return Ok(None);
    }
    let Some(why) = look.run_state(job.run)?.why_over() else { return Ok(None) };
    look.try_fault(format!("the job is open, and {why}"), |draft| draft.end_job(job, EndCause::Revoked))
}
