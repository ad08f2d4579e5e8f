//! The tests that every backend must pass: one function a rule, and its name states the rule.
//!
//! A backend's test file is one line: [`conformance_suite!`](crate::conformance_suite) with what makes a fresh store.

pub mod admission;
pub mod approvals;
pub mod budget_queue;
pub mod budgets;
pub mod child_shares;
pub mod children;
pub(crate) mod clocks;
pub mod dead_letters;
pub mod deferred_results;
pub mod deliveries;
pub mod documents;
pub mod events;
pub mod fences;
pub mod held_approvals;
pub mod inspection;
pub mod job_leases;
pub mod job_timeouts;
pub mod jobs;
pub mod keys;
pub mod large_documents;
pub mod limits;
pub mod lock_queues;
mod lock_requests;
pub mod locks;
pub mod memory;
mod on_manual_clock;
pub mod permits;
pub mod policy_holds;
pub mod queues;
pub mod quotas;
pub mod reconcile;
pub mod registry;
pub mod reservations;
pub mod runs;
mod scene;
pub mod second_results;
pub mod slot_arrivals;
pub mod slot_debounce;
pub mod slot_debounce_ends;
pub mod slot_grants;
pub mod slot_rates;
pub mod slot_replacements;
pub mod slot_shares;
pub mod slot_system_limits;
mod slots;
mod spending;
pub mod step_budgets;
pub mod step_permits;
mod suite;
mod suite_of_limits;
pub mod suspects;
pub mod timers;
pub mod turns;
pub mod values;
pub mod versus_memory;
pub mod workers;
pub mod workflows;

use std::time::Duration;

use async_trait::async_trait;

pub use self::on_manual_clock::OnManualClock;
use crate::Store;

/// What a backend brings to the suite: a fresh store, and a way to let time pass on the clock that it trusts.
#[async_trait]
pub trait Subject: Send + Sync {
    fn store(&self) -> Store;
    async fn elapse(&self, time: Duration);
    /// Closes the store and opens what it kept. A store that keeps nothing comes back as it is.
    async fn reopen(&mut self);
}
