//! The second edge for workers: the public CAP protocol on NATS.
//!
//! Workers introduce themselves and say how they are; jobs are claimed on their behalf, from the same queue and by the
//! same verb as over HTTP, and pushed to them; their results come from a stream and are acknowledged when the store has
//! them. Everything that decides is in the store: a message that is lost, doubled or late costs time.

mod choose;
mod dispatch;
mod edge;
mod hearing;
mod holder;
mod letters;
mod line;
mod lost_claims;
pub mod probe;
mod progress;
mod push;
mod pushed;
mod quiet;
mod registry;
mod results;
pub mod settings;
mod silence;
pub mod streams;
pub mod tally;
mod trouble;
mod verdict;
mod view;
pub mod wire;

pub use edge::{Edge, Parts};
pub use probe::StreamProbe;
pub use settings::CapSettings;
pub use streams::PrepareError;
pub use tally::Tally;
