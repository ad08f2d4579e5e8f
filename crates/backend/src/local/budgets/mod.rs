//! Budgets: documents, permits of clients and of jobs, and the ledger that they are counted in.

mod adjust;
mod book;
mod documents;
mod expiry;
mod inspection;
mod permits;
mod queue;
mod reserve;
mod rows;
mod steps;

pub(super) use inspection::{drift, not_due, without_budget, without_job};
pub(super) use steps::EndedPermit;
