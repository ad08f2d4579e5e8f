//! Many nodes: Redis decides by scripts, NATS wakes.
//!
//! Every verb of the contract is one script of `lua/`, so that it happens or does not. All keys of a tenant carry its
//! hash tag, so that the same scripts serve one server, Sentinel and Cluster. The clock is the store's.

mod admission;
mod approvals;
pub mod bus;
pub mod connect;
mod dead_letters;
mod deliveries;
mod documents;
mod due;
mod encode;
mod history;
mod holds;
mod inspection;
mod jobs;
mod keys;
mod known;
mod link;
mod locks;
pub mod mailbox;
pub mod nats;
mod probe;
mod pulse;
mod reconcile;
mod registry;
mod reservations;
mod rhythm;
mod runs;
mod script;
mod scripts;
mod store;
mod tenants;
mod workers;
mod workflows;

pub use store::RedisStore;
