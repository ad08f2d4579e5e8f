//! Open approvals, and dead letters: what waits for people.

use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState};

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Fault, Inspection, Known, Remedy, RunState};
use crate::StoreError;
use crate::inspection::DEAD_LETTERS_REPORTED_FROM;

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
    look.fault(format!("an approval is open, and {why}"), |draft| {
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
    if look.run_state(job.run)?.why_over().is_some() || open(look, &key)?.is_none() {
        return Ok(None);
    }
    look.missing(Table::OpenApprovals, key, "the run waits for an approval that no list shows".to_owned())
}

pub(super) fn dead_letters_growing(look: &Inspection<'_>) -> Checked {
    let count = look.count(Table::DeadLetters)?;
    if (count as usize) < DEAD_LETTERS_REPORTED_FROM {
        return Ok(None);
    }
    let remedy = Remedy::ByHand("each needs a decision by hand: retry or delete it");
    Ok(Some(Fault { detail: format!("{count} dead letters wait to be retried or deleted"), remedy }))
}
