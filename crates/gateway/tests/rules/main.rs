//! The gateway over TCP on the in-memory store. Each test is a rule of the contract.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_documents;
mod bad_input;
mod browsers;
mod budgets;
mod client;
mod dead_letters;
mod doctor;
mod documented;
mod documents;
mod events;
mod identity;
mod limits;
mod lists;
mod locks;
mod matrix;
mod probes;
mod query;
mod retry_policies;
mod rollouts;
mod run_waits;
mod server;
mod shutdown;
mod slow_clients;
mod starts;
mod step_budgets;
mod syntax;
mod watching;
mod why;
mod workers;
