//! The verbs of the contract as decisions over ordered tables: what the in-memory and the embedded backend share.
//!
//! A verb reads a [`View`] and returns its answer with the [`Changes`] that make it true. It never writes: the
//! executor applies all of the changes or none, so that a verb cannot be half done. The two backends differ only
//! in how they keep tables ([`Executor`]).

mod admission;
mod api_keys;
mod approvals;
mod budgets;
mod children;
mod claim;
mod commit;
mod dead_letters;
mod debounce;
mod deliveries;
mod documents;
mod draft;
mod events;
mod expiry;
mod history;
mod inbox;
mod inspection;
mod jobs;
mod keyed_events;
mod limits;
mod locks;
mod policy_holds;
mod reconcile;
mod registry;
mod reservations;
mod rows;
mod run_leases;
mod runs;
mod slots;
mod store;
mod suspects;
mod system_limits;
mod table;
mod tables;
mod tenants;
mod workers;
mod workflows;

pub use store::{Decide, LocalStore, Look};
pub use table::Table;
pub use tables::{Changes, Decided, Decision, Executor, Pick, Row, View};
