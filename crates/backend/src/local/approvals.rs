//! Approvals: opened and withdrawn by turns, resolved by people.

use interlock_model::approval::{Approval, ApprovalState, Resolution, Verdict};
use interlock_model::job::{EndCause, Job};
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, Timestamp};

use super::draft::Draft;
use super::rows;
use super::store::{Decide, Look};
use super::tables::{Decided, Decision, Table, View, newest_page, read};
use crate::verbs::{ListApprovals, ResolveApproval};
use crate::{Page, StoreError};

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
        if self.hold(job)?.is_none() {
            return Ok(());
        }
        match verdict {
            Verdict::Approved => {
                self.forget_hold(job)?;
                self.enqueue(&open);
            }
            Verdict::Rejected => self.end_job(job, EndCause::Denied)?,
        }
        Ok(())
    }
}

impl Decide for ResolveApproval {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Resolution> {
        let (job, decision) = (&self.job, self.decision.clone());
        let mut draft = Draft::new(view, now, &self.tenant);
        let approval: Option<Approval> = draft.read(Table::Approvals, &rows::job(&self.tenant, job))?;
        let approval = approval.ok_or_else(|| StoreError::not_found("approval", job))?;
        let resolution = approval.state.resolve(decision.verdict);
        if resolution != Resolution::Recorded {
            return Ok(Decision::unchanged(resolution));
        }
        draft.settle_dispatch(job, decision.verdict)?;
        // Afterwards: the end of a dispatch withdraws the approval that it waits for.
        draft.close_approval(&Approval { state: ApprovalState::Resolved(decision.clone()), ..approval });
        draft.post(job.run, &[InboxEvent::Approval { job: job.clone(), decision }])?;
        Ok(draft.answer(resolution))
    }
}

impl Look for ListApprovals {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<Approval>, StoreError> {
        newest_page(view, Table::OpenApprovals, &self.tenant, &self.page, |key| {
            read(view, Table::Approvals, key)
        })
    }
}
