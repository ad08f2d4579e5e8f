//! The whole control plane in one thread, on a paused clock, out of one seed.
//!
//! Gateways, engines and reconcilers are the real ones; the store is the in-memory reference behind bad lines. Workers
//! and clients misbehave as workers and clients do. After every store call of anybody the invariants are checked by a
//! model of its own, so that a broken promise is found at the call that broke it. The same seed gives the same history.

mod bug;
mod bus;
mod checker;
mod clients;
mod dice;
mod failure;
mod instance;
mod lockers;
mod log;
mod operators;
mod planted;
mod planted_budgets;
mod planted_children;
mod planted_events;
mod planted_jobs;
mod planted_limits;
mod scenario;
mod senders;
mod spenders;
mod summary;
mod tables;
mod watched;
mod workers;
mod workflows;
mod world;

pub use bug::Bug;
pub use failure::{Failure, Invariant};
pub use summary::Summary;

/// Runs one seed, with a bug planted or without.
pub fn simulate(seed: u64, planted: Option<Bug>) -> Result<Summary, Failure> {
    world::run(seed, planted, log::Log::silent()).0
}

/// Runs one seed and tells what happened, line by line.
pub fn trace(seed: u64, planted: Option<Bug>) -> (Result<Summary, Failure>, Vec<String>) {
    world::run(seed, planted, log::Log::telling())
}
