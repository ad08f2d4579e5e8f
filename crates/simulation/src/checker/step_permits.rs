//! What jobs reserve, and what their ends make of it, by the rows of each step.

use std::collections::BTreeMap;

use interlock_backend::StoreError;
use interlock_backend::budgets::Reserved;
use interlock_backend::local::Table;
use interlock_backend::policy_holds::{SettleHeldJob, Settled, Settlement};
use interlock_model::JobId;
use interlock_model::budget::{JobUsage, Permit, PermitEnd, PermitState};
use interlock_model::job::Job;
use interlock_model::run::InboxEvent;

use super::Checker;
use super::rows::Write;
use crate::Invariant;

impl Checker {
    pub(crate) fn job_settled(&mut self, asked: &SettleHeldJob, answer: &Result<Settled, StoreError>) {
        match (&asked.settlement, answer) {
            (Settlement::Reserve { .. }, Ok(Settled::Released)) => self.counts.jobs_funded += 1,
            (Settlement::Reserve { .. }, Ok(Settled::NotReserved(Reserved::Exhausted { .. }))) => {
                self.counts.jobs_without_budget += 1;
            }
            (Settlement::Exhaust { .. }, Ok(Settled::Denied)) => {
                self.counts.jobs_exhausted += 1;
                self.end_job(&asked.job, None);
            }
            (Settlement::Ask { .. }, Ok(Settled::Asked)) => self.counts.budgets_asked_about += 1,
            _ => {}
        }
    }

    /// A job that ends, ends its permit in the same step, by what its worker says. One that reserves does so within the
    /// amount.
    pub(super) fn check_jobs_and_permits(&mut self, writes: &[Write]) {
        let usages = usages(writes);
        for (table, key, value) in writes {
            let Some(value) = value else { continue };
            if *table == Table::Jobs
                && let Ok(job) = serde_json::from_str::<Job>(value)
            {
                self.check_ended_job(key, &job, &usages);
            }
            if *table == Table::BudgetPermits
                && let Ok(permit) = serde_json::from_str::<Permit>(value)
            {
                self.check_amount(key, &permit);
            }
        }
    }

    fn check_ended_job(&mut self, key: &str, job: &Job, usages: &BTreeMap<JobId, JobUsage>) {
        let (Some(end), Some(permit), Some(budget)) = (&job.end, &job.permit, &job.new.budget) else {
            return;
        };
        let tenant = key.split('/').next().unwrap_or(key);
        let spent = usages.get(&job.new.id).and_then(|usage| usage.get(&budget.name)).copied();
        let expected = PermitEnd::of(end.held != interlock_model::Fence::NONE, spent);
        let found = self.budgets.permit_rows.get(&format!("{tenant}/{}/{permit}", budget.name));
        let is_so = found.is_some_and(|permit| match expected {
            PermitEnd::Settled(spent) => permit.state == PermitState::Settled && permit.settled == spent,
            PermitEnd::Unsettled => permit.state == PermitState::Unsettled,
            PermitEnd::Released => permit.state == PermitState::Released,
        });
        match expected {
            PermitEnd::Settled(_) => self.counts.jobs_settled += 1,
            PermitEnd::Unsettled => self.counts.jobs_unsettled += 1,
            PermitEnd::Released => self.counts.jobs_released += 1,
        }
        let found = format!("{found:?}");
        self.require(is_so, Invariant::PermitEndsWithJob, || {
            format!("{} has ended, and its permit should be {expected:?} and is {found}", job.new.id)
        });
    }

    /// What was granted a job just now was left.
    fn check_amount(&mut self, key: &str, permit: &Permit) {
        let is_new = permit.state == PermitState::Open && permit.job.is_some();
        let Some((budget, _)) = key.rsplit_once('/').filter(|_| is_new && !permit.granted.is_zero()) else {
            return;
        };
        let Some(ledger) = self.budgets.ledger_rows.get(&format!("{budget}/{}", permit.place())) else {
            return;
        };
        let used = ledger.spent.plus(ledger.reserved).plus(ledger.unsettled);
        let most = self.budgets.amount_of(budget);
        self.require(used <= most, Invariant::Budget, || {
            format!("{} was reserved for a job from {budget}, and makes {used} of {most}", permit.granted)
        });
    }
}

/// What workers said that they have spent, by the results that are written.
fn usages(writes: &[Write]) -> BTreeMap<JobId, JobUsage> {
    let results = writes.iter().filter(|(table, ..)| *table == Table::Inbox);
    let results = results.filter_map(|(_, _, value)| serde_json::from_str(value.as_ref()?).ok());
    let usage = |event: InboxEvent| match event {
        InboxEvent::Job { job, outcome, .. } => outcome.usage().cloned().map(|usage| (job, usage)),
        InboxEvent::Child { .. }
        | InboxEvent::Event(_)
        | InboxEvent::Approval { .. }
        | InboxEvent::ApprovalAsked { .. }
        | InboxEvent::Cancel { .. }
        | InboxEvent::Granted { .. }
        | InboxEvent::Replaced { .. }
        | InboxEvent::Retry { .. } => None,
    };
    results.filter_map(usage).collect()
}
