//! The stages of the control plane. They never call each other: each reads the store, decides, writes once, wakes.

pub mod admission;
pub mod approvals;
pub mod bus_workers;
pub mod contention;
pub mod definitions;
pub mod deliveries;
pub mod engine;
pub mod identity;
mod journal;
pub mod keys;
pub mod limits;
pub mod locks;
pub mod reconcile;
pub mod results;
pub mod runs;
pub mod service;
pub mod settings;
pub mod traces;
pub mod wakeups;

pub use service::Control;
pub use settings::Settings;
