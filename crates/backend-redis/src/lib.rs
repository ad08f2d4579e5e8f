//! Many nodes: Redis decides by scripts, NATS wakes.
//!
//! A verb of the contract is a script of `lua/` that carries its name, so that it happens or does not. All keys of a
//! tenant carry its hash tag, so that the same scripts serve one server, Sentinel and Cluster. The clock is the store's.

mod admission;
mod approvals;
mod arguments;
pub mod bus;
mod client;
pub mod connect;
mod dead_letters;
mod deliveries;
mod documents;
mod due;
mod encode;
mod history;
mod inspection;
mod jobs;
mod keys;
mod known;
mod locks;
pub mod mailbox;
pub mod nats;
mod pieces;
mod policy_holds;
mod probe;
mod pulse;
mod reconcile;
mod registry;
mod reply;
mod reservations;
mod rhythm;
mod runs;
mod script;
mod store;
mod tenants;
mod workers;
mod workflows;

pub use store::RedisStore;
