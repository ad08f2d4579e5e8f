//! What steps reserve for their jobs, and what the end of a job makes of it.

use interlock_model::budget::{Amount, EXPIRED_AT_ONCE_MAX, PermitEnd, PermitState};
use interlock_model::dispatch_policy::{BudgetPlace, Hold, HoldReason};
use interlock_model::job::Job;
use interlock_model::{BudgetName, PermitId};

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::Table;
use super::book::{Book, FORGOTTEN_AT_ONCE_MAX};
use super::reserve::{PermitHolder, Reservation};
use crate::StoreError;
use crate::budgets::Reserved;
use crate::policy_holds::JobReservation;

/// A permit whose job ends in this decision.
pub(in super::super) struct EndedPermit {
    pub(in super::super) budget: BudgetName,
    pub(in super::super) permit: PermitId,
    pub(in super::super) end: PermitEnd,
}

impl Draft<'_> {
    /// Reserves for a held job and writes the permit down with it, or says why not. None: it reserves from no such budget.
    pub(in super::super) fn reserve_for_job(
        &mut self,
        open: &Job,
        hold: &Hold,
        asked: &JobReservation,
    ) -> Result<Option<(Job, Reserved)>, StoreError> {
        let Some(budget) = open.new.budget.as_ref().filter(|budget| budget.name == asked.name) else {
            return Ok(None);
        };
        // An approval lets the job go with what is left. What it settles beyond is overdraft.
        let is_approved = hold.reason == HoldReason::BudgetApproved;
        let least = if is_approved { Amount::ZERO } else { budget.reserve };
        let since = hold.place.as_ref().map_or(hold.since, |place| place.since);
        let place = BudgetPlace { budget: asked.name.clone(), group: asked.group.clone(), since };
        let place = Some(place).filter(|_| asked.is_queued && !is_approved);
        let mut book = Book::open(self, asked.wall_lead);
        book.require(&asked.name)?;
        book.expire_due(EXPIRED_AT_ONCE_MAX)?;
        book.forget_ended(&asked.name, FORGOTTEN_AT_ONCE_MAX)?;
        let reserved = book.reserve(&Reservation {
            name: &asked.name,
            revision: asked.revision,
            window: asked.window,
            group: &asked.group,
            run: asked.run,
            permit: &asked.permit,
            amount: budget.reserve,
            least,
            holder: PermitHolder::Job { job: &open.new.id, place: place.as_ref() },
        })?;
        let (is_granted, mut job) = (matches!(reserved, Reserved::Granted { .. }), open.clone());
        if let Some(before) = hold.place.as_ref().filter(|_| is_granted) {
            book.draft.leave_budget(&job.new.id, before);
            book.freed.append(&mut book.draft.left_budgets);
        }
        let _ = book.close()?;
        if is_granted {
            job.permit = Some(asked.permit.clone());
            self.put(Table::Jobs, rows::job(self.id, &job.new.id), &job);
        } else if let (Some(place), Reserved::Exhausted { .. }) = (place, &reserved) {
            self.wait_for_budget(&job.new.id, hold, (place, budget.reserve));
        }
        Ok(Some((job, reserved)))
    }

    /// Counts what the jobs that end in this decision had reserved, and lets those go on that waited for it. A damaged
    /// budget does not keep a job from its end: the doctor finds its permit.
    pub(in super::super) fn end_budgets(&mut self) -> Result<(), StoreError> {
        let ended = std::mem::take(&mut self.ended_permits);
        let left = std::mem::take(&mut self.left_budgets);
        if ended.is_empty() && left.is_empty() {
            return Ok(());
        }
        let mut book = Book::open(self, 0);
        book.freed = left;
        for EndedPermit { budget, permit, end } in ended {
            match book.end_with_job(&budget, &permit, end) {
                Ok(()) | Err(StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        book.close().map(drop)
    }
}

impl Book<'_, '_> {
    fn end_with_job(&mut self, name: &BudgetName, id: &PermitId, end: PermitEnd) -> Result<(), StoreError> {
        if self.find(name)?.is_none() {
            return Ok(());
        }
        let Some(mut permit) = self.permit(name, id)? else { return Ok(()) };
        if permit.state != PermitState::Open {
            return Ok(());
        }
        self.forget_ended(name, FORGOTTEN_AT_ONCE_MAX)?;
        match end {
            PermitEnd::Settled(spent) => self.settle(name, &mut permit, spent)?,
            PermitEnd::Unsettled => {
                self.end(name, &mut permit, |permit| permit.state = PermitState::Unsettled)?
            }
            PermitEnd::Released => {
                self.end(name, &mut permit, |permit| permit.state = PermitState::Released)?
            }
        };
        Ok(())
    }
}
