//! The stages of the control plane. They never use each other: each reads the store, decides, writes once, wakes.
//!
//! Modules are in four layers, and each uses only modules of the layers below it (of its own layer only `shared` ones):
//!
//! - shared: `budget_questions`
//!   `bounded` `contention` `counts` `definitions` `dispatch_policy` `every_tenant` `identity` `journal` `lease`
//!   `limit_books` `limit_usage` `loop_lock` `orphans` `process` `run_deletion` `settings` `system_limits` `traces`
//!   `wakeups` `why` `worker_directory`
//! - stages: `admission` `api_keys` `budgets` `dead_letters` `documents` `engine` `limits` `locks` `policy` `reconcile`
//!   `results` `rollouts` `run_ends` `workers`
//! - actions: `doctor` `lock_strategies` `runs`
//! - `service`, the composition root
//!
//! `cargo xtask tidy` checks it.

pub mod admission;
pub mod api_keys;
mod appointments;
mod bounded;
pub mod budget_questions;
pub mod budgets;
pub mod children;
pub mod contention;
pub mod counts;
pub mod dead_letters;
mod definitions;
pub mod dispatch_policy;
pub mod doctor;
pub mod documents;
mod engine;
pub mod events;
mod every_tenant;
pub mod identity;
pub mod installation;
mod journal;
pub mod lease;
pub mod limit_books;
pub mod limit_usage;
pub mod limits;
pub mod lock_strategies;
pub mod locks;
pub mod loop_lock;
mod orphans;
pub mod policy;
pub mod process;
pub mod reconcile;
pub mod results;
pub mod rollouts;
mod run_deletion;
pub mod run_ends;
pub mod runs;
pub mod service;
pub mod settings;
pub mod system_limits;
pub mod traces;
pub mod wakeups;
pub mod why;
pub mod worker_directory;
pub mod workers;

pub use service::Control;
pub use settings::Settings;
