//! Why a budget was not reserved from, or not changed.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::budgets::{Budget, BudgetBound};
use interlock_model::budget::{Amount, BudgetGroup, InvalidBudget, LedgerState, Window, exhausted};
use interlock_model::{BudgetName, RunId, Timestamp};

/// Too little is left.
#[derive(Debug, Clone, PartialEq)]
pub struct Exhausted {
    /// For people: what is left, who has the rest, when it resets.
    pub sentence: String,
    pub remaining: Amount,
    pub resets_at: Option<Timestamp>,
    /// How long until it resets, if nothing that is reserved is released before.
    pub resets_in: Option<Duration>,
    /// Whether there would be enough if what is reserved were not spent.
    pub may_be_released: bool,
}

/// Why a budget was not reserved from, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("{0}")]
    Invalid(String),
    #[error("{}", .0.sentence)]
    Exhausted(Box<Exhausted>),
    #[error("{0}")]
    TooMany(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<InvalidBudget> for BudgetError {
    fn from(error: InvalidBudget) -> Self {
        Self::Invalid(error.to_string())
    }
}

pub(super) fn refusal(
    budget: &Budget,
    (group, window): (&BudgetGroup, &Window),
    state: &LedgerState,
    (least, now): (Amount, Timestamp),
) -> Exhausted {
    let named = (budget.name.as_str(), &budget.document);
    Exhausted {
        sentence: exhausted(named, (group, window), (state, 0), (least, now)),
        remaining: state.remaining,
        resets_at: window.until,
        resets_in: window.until.map(|until| until.since(now)),
        may_be_released: state.remaining.plus(state.ledger.reserved) >= least
            && !state.ledger.reserved.is_zero(),
    }
}

pub(super) fn too_many(name: &BudgetName, what: BudgetBound, most: u32) -> BudgetError {
    BudgetError::TooMany(match what {
        BudgetBound::OpenPermits => {
            format!("budget {name} has {most} open permits, the maximum; settle or release some")
        }
        BudgetBound::Groups => format!(
            "budget {name} has ledgers of {most} keys or runs, the maximum; those of windows that are over are removed \
             within hours"
        ),
    })
}

pub(super) fn run_over(run: Option<RunId>, is_known: bool) -> BudgetError {
    let run = run.map(|run| run.to_string()).unwrap_or_default();
    if is_known {
        StoreError::Conflict(format!("run {run} has ended; nothing more can be reserved for it")).into()
    } else {
        StoreError::not_found("run", run).into()
    }
}

pub(super) fn storm(name: &BudgetName) -> BudgetError {
    StoreError::Conflict(format!("budget {name} changes faster than it can be read; try again")).into()
}
