//! Budgets: documents, permits, and the ledger that both are counted in.

mod adjust;
mod book;
mod documents;
mod expiry;
mod inspection;
mod permits;
mod reserve;
mod rows;

pub(super) use inspection::{drift, not_due, without_budget};
