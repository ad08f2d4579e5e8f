//! The verbs of the contract as decisions over ordered tables: what the in-memory and the embedded backend share.
//!
//! A verb reads a [`View`] and returns its answer with the [`Changes`] that make it true. It never writes: whoever
//! executes it applies all of the changes or none, so that a verb cannot be half done. The two backends differ only
//! in how they keep tables ([`Executor`]).

mod admit;
mod approvals;
mod claim;
mod commit;
mod dead_letters;
mod deliveries;
mod documents;
mod expiry;
mod history;
mod holds;
mod inbox;
mod inspection;
mod jobs;
mod keys;
mod locks;
mod reconcile;
mod registry;
mod reservations;
mod rows;
mod runs;
mod slots;
mod store;
mod tables;
mod take;
mod tenants;
mod workers;
mod workflows;

pub use store::LocalStore;
pub use tables::{Changes, Decide, Decision, Executor, Pick, Row, Table, View};
