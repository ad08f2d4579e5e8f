//! Open approvals.

use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState};

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known, RunState};
use crate::StoreError;

pub(super) fn open(look: &Inspection<'_>, key: &str) -> Result<Option<Approval>, StoreError> {
    Ok(match look.read::<Approval>(Table::Approvals, key)? {
        Known::Is(approval) if approval.state == ApprovalState::Open => Some(approval),
        Known::Is(_) | Known::Absent | Known::Unreadable => None,
    })
}

pub(super) fn of_ended_run(look: &Inspection<'_>, job: &JobId) -> Checked {
    let key = rows::job(look.tenant, job);
    let Some(approval) = open(look, &key)? else { return Ok(None) };
    let state = look.run_state(job.run)?;
    let Some(why) = state.why_over() else { return Ok(None) };
    look.fault(format!("somebody is asked for an approval, and {why}"), |draft| {
        draft.delete(Table::OpenApprovals, key.clone());
        if state == RunState::Missing {
            draft.delete(Table::Approvals, key);
        } else {
            draft.put(Table::Approvals, key, &Approval { state: ApprovalState::Withdrawn, ..approval });
        }
    })
}

pub(super) fn not_listed(look: &Inspection<'_>, job: &JobId) -> Checked {
    let key = rows::job(look.tenant, job);
    let is_over = look.run_state(job.run)?.why_over().is_some();
    if is_over || open(look, &key)?.is_none() || look.is_there(Table::OpenApprovals, &key)? {
        return Ok(None);
    }
    look.fault("the run waits for an approval that nobody is shown", |draft| {
        draft.mark(Table::OpenApprovals, key);
    })
}
