//! The stages of the control plane. They never call each other: each reads the store, decides, writes once, wakes.

pub mod admission;
pub mod approvals;
pub mod bus_workers;
pub mod contention;
pub mod counts;
pub mod dead_letters;
pub mod definitions;
pub mod deliveries;
pub mod dispatch_policy;
pub mod doctor;
pub mod engine;
pub mod identity;
pub mod keys;
pub mod limits;
pub mod locks;
mod orphans;
pub mod reconcile;
pub mod results;
pub mod runs;
pub mod service;
pub mod settings;
pub mod wakeups;
pub mod why;
pub mod workers;

pub use service::Control;
pub use settings::Settings;
