//! The ledger of one group in one window, and what each event does to it.

use serde::{Deserialize, Serialize};

use super::{Amount, BudgetGroup, Delta, Permit, PermitState};
use crate::Timestamp;

/// What is counted for one group in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// What was settled.
    pub spent: Amount,
    /// What open permits may still spend.
    pub reserved: Amount,
    /// What permits had reserved that expired without a settlement. It counts as spent.
    pub unsettled: Amount,
    /// How much of what was settled was not reserved.
    pub overdraft: Amount,
    /// What operators added to the amount, or took from it.
    pub adjusted: Delta,
    /// Permits that are open.
    pub open: u32,
    /// Permits that have ended and are remembered.
    pub ended: u32,
    /// Of `spent`, `unsettled` and `overdraft`: the part of permits that are no longer remembered.
    pub past_spent: Amount,
    pub past_unsettled: Amount,
    pub past_overdraft: Amount,
    /// The highest threshold that was reached, in percent.
    pub warned: u8,
    /// When its window ends, by the wall clock. None: it does not by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// Groups of the window. Only its total counts them.
    pub groups: u32,
}

/// More to spend for everyone, or for one group, until a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Increase {
    pub delta: Amount,
    pub until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<BudgetGroup>,
}

/// What has to be spent for a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarnMark {
    pub percent: u8,
    pub amount: Amount,
}

/// A threshold was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub percent: u8,
    /// What counted as spent then.
    pub used: Amount,
    pub group: BudgetGroup,
}

/// A ledger beside what limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerState {
    pub ledger: Ledger,
    /// The amount with increases and adjustments.
    pub limit: Amount,
    pub remaining: Amount,
}

/// What a group may spend now.
pub fn limit(
    amount: Amount,
    increases: &[Increase],
    adjusted: Delta,
    (group, now): (&BudgetGroup, Timestamp),
) -> Amount {
    let applies = |increase: &&Increase| {
        now < increase.until && increase.group.as_ref().is_none_or(|only| only == group)
    };
    let raised = increases.iter().filter(applies).fold(amount, |sum, increase| sum.plus(increase.delta));
    raised.adjusted(adjusted)
}

impl Ledger {
    pub fn remaining(&self, limit: Amount) -> Amount {
        limit.minus(self.spent).minus(self.reserved).minus(self.unsettled)
    }

    pub fn under(self, limit: Amount) -> LedgerState {
        LedgerState { ledger: self, limit, remaining: self.remaining(limit) }
    }

    /// What counts as spent.
    pub fn used(&self) -> Amount {
        self.spent.plus(self.unsettled)
    }

    /// Whether nothing of it has to be kept once its window is over.
    pub fn is_at_rest(&self) -> bool {
        self.open == 0 && self.ended == 0
    }

    /// Adds what a permit that is kept counts for.
    pub fn add(&mut self, permit: &Permit) {
        match permit.state {
            PermitState::Open => {
                self.open += 1;
                self.reserved = self.reserved.plus(permit.granted);
                return;
            }
            PermitState::Unsettled => self.unsettled = self.unsettled.plus(permit.granted),
            PermitState::Settled => {
                self.spent = self.spent.plus(permit.settled);
                self.overdraft = self.overdraft.plus(permit.overdraft());
            }
            PermitState::Released => {}
        }
        self.ended += 1;
    }

    /// Takes away what [`add`](Self::add) added.
    pub fn remove(&mut self, permit: &Permit) {
        match permit.state {
            PermitState::Open => {
                self.open = self.open.saturating_sub(1);
                self.reserved = self.reserved.minus(permit.granted);
                return;
            }
            PermitState::Unsettled => self.unsettled = self.unsettled.minus(permit.granted),
            PermitState::Settled => {
                self.spent = self.spent.minus(permit.settled);
                self.overdraft = self.overdraft.minus(permit.overdraft());
            }
            PermitState::Released => {}
        }
        self.ended = self.ended.saturating_sub(1);
    }

    /// A permit that has ended is no longer remembered; what it counts for stays.
    pub fn forget(&mut self, permit: &Permit) {
        self.ended = self.ended.saturating_sub(1);
        match permit.state {
            PermitState::Unsettled => self.past_unsettled = self.past_unsettled.plus(permit.granted),
            PermitState::Settled => {
                self.past_spent = self.past_spent.plus(permit.settled);
                self.past_overdraft = self.past_overdraft.plus(permit.overdraft());
            }
            PermitState::Open | PermitState::Released => {}
        }
    }

    /// Takes a group out of the total of its window.
    pub fn leave(&mut self, group: &Self) {
        self.spent = self.spent.minus(group.spent);
        self.reserved = self.reserved.minus(group.reserved);
        self.unsettled = self.unsettled.minus(group.unsettled);
        self.overdraft = self.overdraft.minus(group.overdraft);
        self.past_spent = self.past_spent.minus(group.past_spent);
        self.past_unsettled = self.past_unsettled.minus(group.past_unsettled);
        self.past_overdraft = self.past_overdraft.minus(group.past_overdraft);
        self.open = self.open.saturating_sub(group.open);
        self.ended = self.ended.saturating_sub(group.ended);
        self.adjusted = self.adjusted.plus(group.adjusted.reversed());
        self.groups = self.groups.saturating_sub(1);
    }

    /// Takes a group into the total of its window.
    pub fn join(&mut self, group: &Self) {
        self.spent = self.spent.plus(group.spent);
        self.reserved = self.reserved.plus(group.reserved);
        self.unsettled = self.unsettled.plus(group.unsettled);
        self.overdraft = self.overdraft.plus(group.overdraft);
        self.past_spent = self.past_spent.plus(group.past_spent);
        self.past_unsettled = self.past_unsettled.plus(group.past_unsettled);
        self.past_overdraft = self.past_overdraft.plus(group.past_overdraft);
        self.open += group.open;
        self.ended += group.ended;
        self.adjusted = self.adjusted.plus(group.adjusted);
        self.groups += 1;
    }

    /// Without the permits that are kept: what is not derived from them.
    pub fn without_permits(&self) -> Self {
        Self {
            spent: self.past_spent,
            unsettled: self.past_unsettled,
            overdraft: self.past_overdraft,
            reserved: Amount::ZERO,
            open: 0,
            ended: 0,
            ..*self
        }
    }

    /// The thresholds that are reached now and were not before.
    pub fn warn(&mut self, marks: &[WarnMark], group: &BudgetGroup) -> Vec<Warning> {
        let (warned, used) = (self.warned, self.used());
        let is_new = |mark: &&WarnMark| mark.percent > warned && mark.amount <= used;
        let new: Vec<_> = marks
            .iter()
            .filter(is_new)
            .map(|mark| Warning { percent: mark.percent, used, group: group.clone() })
            .collect();
        self.warned = new.iter().map(|warning| warning.percent).fold(warned, u8::max);
        new
    }
}
