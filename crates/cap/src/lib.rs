//! NATS workers: the public CAP protocol.
//!
//! Workers send a handshake and heartbeats. The dispatcher claims jobs on their behalf, from the same queues and by the
//! same verb as over HTTP, and pushes them. Results arrive through a stream and are acknowledged when the store has them.
//! The store decides everything: a message that is lost, duplicated or late costs time, never correctness.

mod backoff;
mod choose;
mod confirmations;
mod confirming;
mod connectivity;
pub mod counts;
mod dispatch;
mod dispatch_queue;
mod edge;
#[cfg(test)]
mod fuzz;
mod job_result;
mod lease_check;
mod lost_claims;
mod packets;
pub mod probe;
mod push;
mod pushed_jobs;
mod registry;
mod results;
pub mod settings;
mod silence;
pub mod streams;
mod usage;
pub mod wire;
mod worker_view;

pub use counts::NatsCounts;
pub use edge::{Edge, Parts};
pub use probe::StreamProbe;
pub use settings::CapSettings;
pub use streams::PrepareError;
