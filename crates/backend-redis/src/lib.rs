//! Many nodes: Redis decides by scripts, NATS wakes.
//!
//! A verb of the contract is a script of `lua/` that carries its name, so that it happens or does not. All keys of a
//! tenant carry its hash tag, so that the same scripts serve one server, Sentinel and Cluster. The clock is the store's.

mod admission;
mod aside;
mod budgets;
pub mod bus;
mod children;
mod client;
pub mod connect;
mod due;
mod encode;
mod events;
mod inspection;
mod jobs;
pub mod key_mark;
mod known;
mod limits;
mod locks;
pub mod mailbox;
pub mod nats;
mod pieces;
mod probe;
mod pulse;
mod reply;
mod rhythm;
mod runs;
mod script;
mod scripted;
mod store;
mod system;
mod tenants;
mod texts;
mod unlisted;

pub use store::RedisStore;
