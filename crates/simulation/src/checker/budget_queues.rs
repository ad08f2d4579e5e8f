//! Jobs that wait for their budget: none is passed by one that came later, and none sleeps while there is enough for it.

use std::collections::BTreeMap;

use interlock_backend::local::Table;
use interlock_model::Clock as _;
use interlock_model::budget::{Amount, Permit, PermitState};
use interlock_model::dispatch_policy::{Hold, HoldReason};

use super::Checker;
use super::rows::Write;
use crate::Invariant;

#[derive(Default)]
pub(super) struct BudgetQueues {
    /// What waits for which amount, by `tenant/budget/group/since/job`.
    waiting: BTreeMap<String, Amount>,
    /// By `tenant/job`.
    holds: BTreeMap<String, KnownHold>,
}

struct KnownHold {
    hold: Hold,
    /// It found too little left and is due again later: no process tries it now.
    sleeps: bool,
}

impl BudgetQueues {
    fn hold_written(&mut self, key: &str, hold: Hold) {
        let sleeps = self.holds.get(key).is_some_and(|before| {
            let is_as_before = before.hold.looks == hold.looks && before.hold.reason == hold.reason;
            let is_moved = before.hold.look_at != hold.look_at;
            if is_as_before { before.sleeps && !is_moved } else { hold.reason == HoldReason::BudgetExhausted }
        });
        self.holds.insert(key.to_owned(), KnownHold { hold, sleeps });
    }
}

/// `tenant/budget/group/` of a row of the queue.
fn queue_of(key: &str) -> &str {
    let end = key.match_indices('/').nth(2).map_or(key.len(), |(at, _)| at + 1);
    &key[..end]
}

impl Checker {
    pub(super) fn queue_row_written(&mut self, table: Table, key: &str, value: Option<&str>) {
        let queues = &mut self.budget_queues;
        match (table, value) {
            (Table::BudgetQueue, Some(value)) => {
                let amount = serde_json::from_str(value).unwrap_or_default();
                self.counts.jobs_queued_for_budgets +=
                    u64::from(queues.waiting.insert(key.to_owned(), amount).is_none());
            }
            (Table::BudgetQueue, None) => drop(queues.waiting.remove(key)),
            (Table::Held, Some(value)) => {
                if let Ok(hold) = serde_json::from_str(value) {
                    queues.hold_written(key, hold);
                }
            }
            // What is known of a hold that has ended says where its job waited.
            _ => {}
        }
    }

    pub(super) fn check_budget_queues(&mut self, writes: &[Write]) {
        for (table, key, value) in writes {
            if let (Table::BudgetPermits, Some(value)) = (table, value)
                && let Ok(permit) = serde_json::from_str::<Permit>(value)
            {
                self.check_turn(key, &permit);
            }
        }
        let of_queues = [Table::BudgetQueue, Table::BudgetLedgers, Table::Held];
        if writes.iter().any(|(table, ..)| of_queues.contains(table)) {
            self.check_sleepers();
        }
    }

    /// A job that reserves now has waited longest, of those that could.
    fn check_turn(&mut self, key: &str, permit: &Permit) {
        let Some((budget, _)) = key.rsplit_once('/') else { return };
        let Some(job) = permit.job.as_ref().filter(|_| permit.state == PermitState::Open) else { return };
        let tenant = key.split('/').next().unwrap_or_default();
        let Some(known) = self.budget_queues.holds.get(&format!("{tenant}/{job}")) else { return };
        if known.hold.reason == HoldReason::BudgetApproved {
            return;
        }
        let since = known.hold.place.as_ref().map_or(known.hold.since, |place| place.since);
        let queue = format!("{budget}/{}/", permit.group);
        let own = format!("{queue}{:015}/{job}", since.as_millis());
        let most = self.budgets.amount_of(budget);
        let mut earlier = self.budget_queues.waiting.range(queue..own);
        let passed = earlier.find(|(_, amount)| **amount <= most).map(|(key, _)| key.clone());
        self.require(passed.is_none(), Invariant::LineIsKept, || {
            format!("{job} has reserved before one that waits longer: {}", passed.clone().unwrap_or_default())
        });
    }

    /// The first of each queue that can ever reserve is due, if there is enough for it.
    fn check_sleepers(&mut self) {
        let now = self.clock.now();
        let mut found = None;
        let mut queue = "";
        for (key, amount) in &self.budget_queues.waiting {
            let budget = key.match_indices('/').nth(1).map_or("", |(at, _)| &key[..at]);
            if queue == queue_of(key) || *amount > self.budgets.amount_of(budget) {
                continue;
            }
            queue = queue_of(key);
            let (tenant, job) =
                (key.split('/').next().unwrap_or_default(), key.rsplit('/').next().unwrap_or_default());
            let known = self.budget_queues.holds.get(&format!("{tenant}/{job}"));
            let sleeps = known.is_some_and(|known| known.sleeps && known.hold.look_at > Some(now));
            if sleeps && self.budgets.left_in(budget, queue).is_some_and(|left| *amount <= left) {
                found = Some(format!("{job} sleeps, and {budget} has enough for its {amount}"));
                break;
            }
        }
        self.require(found.is_none(), Invariant::NoStartableWaits, || found.clone().unwrap_or_default());
    }
}
