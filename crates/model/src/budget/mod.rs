//! Budgets: what may be spent per window of time, per run or in all; reserved by permits, and settled by what was spent.
//!
//! One ledger per budget, window and key. A reservation is granted only if everything that was spent, is reserved, or is
//! unsettled stays within the amount. What is settled is counted whatever it is: money that is gone is gone.

mod amount;
mod document;
mod explain;
mod ledger;
mod permit;
mod step;
mod window;

use std::time::Duration;

pub use amount::{AMOUNT_PATTERN, Amount, DELTA_PATTERN, Delta, InvalidAmount};
pub use document::{BudgetDocument, InvalidBudget, OnExhausted, UNIT_CHARS_MAX, WARN_AT_MAX};
pub use explain::exhausted;
pub use ledger::{Increase, Ledger, LedgerState, WarnMark, Warning, limit};
pub use permit::{BudgetGroup, InvalidKey, Permit, PermitEnd, PermitState, permit_id};
pub use step::{InvalidUsage, JobUsage, StepBudget, USAGE_MAX, job_permit_id, read_usage, spending_run};
pub use window::{Period, Window};

/// Budgets that a tenant may have.
pub const BUDGETS_MAX: usize = 64;

/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 256;

/// How long a permit lasts unless it is renewed.
pub const TTL_MIN: Duration = Duration::from_secs(1);
pub const TTL_MAX: Duration = Duration::from_hours(1);

/// Open permits of one budget.
pub const OPEN_PERMITS_MAX: u32 = 10_000;

/// Permits of one budget that have ended and are remembered, so that a repeated call is recognised and a late settlement
/// finds what it corrects. The oldest make room.
pub const ENDED_PERMITS_MAX: u32 = 20_000;

/// How long a permit is remembered that was settled or released, and one that expired unsettled.
pub const SETTLED_KEPT: Duration = Duration::from_hours(1);
pub const UNSETTLED_KEPT: Duration = Duration::from_hours(7 * 24);

/// Keys of one budget, over all of its windows that are kept.
pub const GROUPS_MAX: u32 = 100_000;

/// A window that is over goes with its last permit; this often it is looked at.
pub const GROUP_CHECKED_EVERY: Duration = Duration::from_hours(1);

/// Adjustments and warnings that are kept of one budget. The oldest make room.
pub const EVENTS_MAX: usize = 200;

/// Temporary increases of one budget that are in force at once.
pub const INCREASES_MAX: usize = 16;

/// How long a temporary increase may last.
pub const INCREASE_MAX: Duration = Duration::from_hours(366 * 24);

/// Permits whose time has come that one reservation ends beside its own work.
pub const EXPIRED_AT_ONCE_MAX: usize = 64;

/// Waiting jobs that are woken in one step, and those ahead of another that are counted.
pub const WOKEN_AT_ONCE_MAX: usize = 32;
pub const AHEAD_COUNTED_MAX: usize = 100;

#[cfg(test)]
mod tests;
