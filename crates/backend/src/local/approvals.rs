//! Approvals: opened and withdrawn by turns, resolved by people.

use interlock_model::JobId;
use interlock_model::approval::{Approval, ApprovalState, Resolution, Verdict};
use interlock_model::job::{EndCause, Job};
use interlock_model::run::InboxEvent;

use super::draft::{Draft, decide};
use super::rows;
use super::store::look;
use super::tables::{Table, newest_page, read};
use crate::StoreError;
use crate::verbs::{ListApprovals, ResolveApproval};

impl Draft<'_> {
    pub(super) fn open_approval(&mut self, approval: &Approval) {
        let key = rows::job(self.id, &approval.job);
        self.put(Table::Approvals, key.clone(), approval);
        self.mark(Table::OpenApprovals, key);
    }

    pub(super) fn withdraw_approval(&mut self, job: &JobId) -> Result<(), StoreError> {
        let approval: Option<Approval> = self.read(Table::Approvals, &rows::job(self.id, job))?;
        if let Some(open) = approval.filter(|approval| approval.state == ApprovalState::Open) {
            self.close_approval(&Approval { state: ApprovalState::Withdrawn, ..open });
        }
        Ok(())
    }

    fn close_approval(&mut self, approval: &Approval) {
        let key = rows::job(self.id, &approval.job);
        self.put(Table::Approvals, key.clone(), approval);
        self.delete(Table::OpenApprovals, key);
    }

    /// A dispatch that waits for this verdict goes to its queue, or ends, with it.
    fn settle_dispatch(&mut self, job: &JobId, verdict: Verdict) -> Result<(), StoreError> {
        let Some(open) = self.read::<Job>(Table::Jobs, &rows::job(self.id, job))? else { return Ok(()) };
        let Some(hold) = self.hold(job)? else { return Ok(()) };
        match verdict {
            Verdict::Approved => {
                self.forget_hold(job)?;
                self.release(&open, hold.reason.after_approval());
            }
            Verdict::Rejected => self.end_job(job, EndCause::Denied)?,
        }
        Ok(())
    }
}

decide!(ResolveApproval, |verb, draft| {
    let (job, decision) = (&verb.job, verb.decision.clone());
    let key = rows::job(&verb.tenant, job);
    let approval: Approval = draft.require(Table::Approvals, &key, ("approval", job))?;
    let resolution = approval.state.resolve(decision.verdict);
    if resolution != Resolution::Recorded {
        return Ok(resolution);
    }
    draft.settle_dispatch(job, decision.verdict)?;
    // Afterwards: the end of a dispatch withdraws the approval that it waits for.
    draft.close_approval(&Approval { state: ApprovalState::Resolved(decision.clone()), ..approval });
    draft.post(job.run, &[InboxEvent::Approval { job: job.clone(), decision }])?;
    Ok(resolution)
});

look!(ListApprovals, |verb, view| {
    let (page, rows_max) = ((&verb.tenant, &verb.page), verb.page.limit);
    newest_page(view, Table::OpenApprovals, page, rows_max, |row| read(view, Table::Approvals, &row.key))
});
