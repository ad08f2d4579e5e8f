//! Questions that nobody has answered.

use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState};

use super::super::rows;
use super::super::tables::{Changes, Table};
use super::{Fault, Known, Look, Standing};
use crate::StoreError;

fn open(look: &Look<'_>, key: &str) -> Result<Option<Approval>, StoreError> {
    Ok(match look.read::<Approval>(Table::Approvals, key)? {
        Known::Is(approval) if approval.state == ApprovalState::Open => Some(approval),
        Known::Is(_) | Known::Absent | Known::Unreadable => None,
    })
}

pub(super) fn of_ended_run(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let key = rows::job(look.tenant, job);
    let Some(approval) = open(look, &key)? else { return Ok(None) };
    let standing = look.standing(job.run)?;
    let Some(why) = standing.why_over() else { return Ok(None) };
    let mut changes = Changes::default();
    changes.delete(Table::OpenApprovals, key.clone());
    if standing == Standing::Gone {
        changes.delete(Table::Approvals, key);
    } else {
        changes.put(Table::Approvals, key, &Approval { state: ApprovalState::Withdrawn, ..approval });
    }
    Ok(Some(Fault::new(format!("somebody is asked for an approval, and {why}"), changes)))
}

pub(super) fn not_listed(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let key = rows::job(look.tenant, job);
    let is_over = look.standing(job.run)?.why_over().is_some();
    if is_over || open(look, &key)?.is_none() || look.is_there(Table::OpenApprovals, &key)? {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::OpenApprovals, key);
    Ok(Some(Fault::new("the run waits for an approval that nobody is shown", changes)))
}
