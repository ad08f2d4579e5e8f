//! Black box: through the binary and the wire, as a user would.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod bombs;
mod browsers;
mod budgets;
mod caps;
mod children;
mod commands;
mod dashboard;
mod dead_letters;
mod deployment;
mod dispatch_policy;
mod doctor;
mod documents;
mod drill;
mod events;
mod expressions;
mod fences;
mod folder;
mod from_cordum;
mod idempotency;
mod kills;
mod lab;
mod limits;
mod load;
mod lock_failures;
mod locks;
mod logs;
mod machines;
mod openapi;
mod paused_worker;
mod poison;
mod retry_policies;
mod run_lock;
mod secrets;
mod seeing;
mod server;
mod step_budgets;
mod story;
mod tls;
mod traces;
mod walk_through;
mod why;
