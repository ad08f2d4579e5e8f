//! Jobs that wait for their budget: in the order in which they began to wait, woken by what frees an amount.

use interlock_model::budget::{AHEAD_COUNTED_MAX, Amount, BudgetGroup, LedgerState, WOKEN_AT_ONCE_MAX};
use interlock_model::dispatch_policy::{BudgetPlace, Hold};
use interlock_model::{BudgetName, JobId};

use super::super::draft::Draft;
use super::super::rows::last_part;
use super::super::tables::{Pick, Row, Table, parse, scan_prefix};
use super::book::Book;
use super::rows;
use crate::StoreError;

/// Those that wait ahead of a job.
#[derive(Default)]
pub(super) struct Ahead {
    /// How many, up to a bound.
    pub(super) jobs: u32,
    /// Whether one of them can get what it waits for. One that wants more than the whole amount does not hold up the others.
    pub(super) is_blocking: bool,
}

struct WaitingJob {
    job: JobId,
    hold: Hold,
    amount: Amount,
}

impl Draft<'_> {
    /// Writes down where a job waits that found too little left.
    pub(super) fn wait_for_budget(
        &mut self,
        job: &JobId,
        hold: &Hold,
        (place, amount): (BudgetPlace, Amount),
    ) {
        if let Some(before) = hold.place.as_ref().filter(|before| **before != place) {
            self.leave_budget(job, before);
        }
        self.put(Table::BudgetQueue, rows::waiting(self.id, &place, job), &amount);
        self.put_hold(job, &Hold { place: Some(place), ..hold.clone() });
    }

    /// A job waits for its budget no more. Those behind it are looked at with the rest of this decision.
    pub(in super::super) fn leave_budget(&mut self, job: &JobId, place: &BudgetPlace) {
        self.delete(Table::BudgetQueue, rows::waiting(self.id, place, job));
        self.unheld.insert(job.clone());
        self.left_budgets.insert((place.budget.clone(), place.group.clone()));
    }

    /// The job of a row of the queue. A row whose job does not wait there goes.
    fn waiting_job(&mut self, row: &Row) -> Result<Option<WaitingJob>, StoreError> {
        let Ok(job) = last_part(&row.key).parse::<JobId>() else { return Ok(None) };
        if self.unheld.contains(&job) {
            return Ok(None);
        }
        let hold = match self.hold(&job) {
            Err(StoreError::Damaged { .. }) => return Ok(None),
            found => found?,
        };
        let is_there = |hold: &Hold| {
            hold.place.as_ref().is_some_and(|place| rows::waiting(self.id, place, &job) == row.key)
        };
        let Some(hold) = hold.filter(is_there) else {
            self.delete(Table::BudgetQueue, row.key.clone());
            return Ok(None);
        };
        let amount = parse(Table::BudgetQueue, &row.key, &row.value)?;
        Ok(Some(WaitingJob { job, hold, amount }))
    }

    /// Makes a waiting job due. Whether it was not.
    fn look_now(&mut self, WaitingJob { job, hold, .. }: &WaitingJob) -> bool {
        let Some(at) = hold.look_at.filter(|at| *at > self.now) else { return false };
        self.undue(job, at);
        self.write_hold(job, &Hold { look_at: Some(self.now), ..hold.clone() });
        true
    }

    /// Makes the first jobs due that wait for any amount of the budget: what they wait for has changed.
    pub(super) fn wake_all(&mut self, name: &BudgetName) -> Result<u32, StoreError> {
        let all = rows::of_budget(self.id, name);
        let mut woken = 0;
        for row in scan_prefix(self.view, Table::BudgetQueue, &all, Pick::First(WOKEN_AT_ONCE_MAX))? {
            if let Some(waiting) = self.waiting_job(&row)? {
                woken += u32::from(self.look_now(&waiting));
            }
        }
        Ok(woken)
    }
}

impl Book<'_, '_> {
    /// Makes the first waiting jobs due for which enough is left now. Returns how many were not.
    pub(super) fn wake(&mut self, name: &BudgetName, group: &BudgetGroup) -> Result<u32, StoreError> {
        let Some(budget) = self.find(name)? else { return Ok(0) };
        let newest = budget.window.clone().unwrap_or_default();
        let queue = rows::queue(self.draft.id, name, group);
        let first = scan_prefix(self.draft.view, Table::BudgetQueue, &queue, Pick::First(WOKEN_AT_ONCE_MAX))?;
        if first.is_empty() {
            return Ok(0);
        }
        let LedgerState { limit, remaining: mut left, .. } =
            self.state(name, (&format!("{newest}/{group}"), group))?;
        let mut woken = 0;
        for row in first {
            let Some(waiting) = self.draft.waiting_job(&row)? else { continue };
            if waiting.amount > limit {
                continue;
            }
            if waiting.amount > left {
                break;
            }
            left = left.minus(waiting.amount);
            woken += u32::from(self.draft.look_now(&waiting));
        }
        Ok(woken)
    }

    /// Those that wait for the same amount longer than this job.
    pub(super) fn ahead(
        &mut self,
        (place, job): (&BudgetPlace, &JobId),
        limit: Amount,
    ) -> Result<Ahead, StoreError> {
        let from = rows::queue(self.draft.id, &place.budget, &place.group);
        let own = rows::waiting(self.draft.id, place, job);
        let first = self.draft.view.scan(Table::BudgetQueue, &from, &own, Pick::First(AHEAD_COUNTED_MAX))?;
        let mut ahead = Ahead { jobs: u32::try_from(first.len()).unwrap_or(u32::MAX), is_blocking: false };
        for row in &first {
            let waiting = self.draft.waiting_job(row)?;
            if waiting.is_some_and(|waiting| waiting.amount <= limit) {
                ahead.is_blocking = true;
                break;
            }
        }
        Ok(ahead)
    }
}
