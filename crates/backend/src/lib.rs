//! The contract that a backend fulfils, and what every backend is held to.
//!
//! A verb of the store is one atomic step: a transaction when embedded, a script on Redis. Between two of them the
//! process may die, and nothing is lost or doubled. The bus only says "look"; the truth is always read from the store.

pub mod approvals;
pub mod budgets;
pub mod bus;
pub mod children;
pub mod clock;
pub mod dead_letters;
pub mod deliveries;
pub mod documents;
pub mod error;
pub mod events;
pub mod history;
pub mod inspection;
pub mod instrumented;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod local;
pub mod locks;
pub mod mailbox;
pub mod page;
pub mod policy_holds;
pub mod reconcile;
pub mod registry;
pub mod reservations;
pub mod runs;
mod store;
pub mod suspects;
pub mod tenants;
pub mod verb;
pub mod verbs;
mod wire;
pub mod workers;
pub mod workflows;

#[cfg(feature = "testing")]
#[expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "rules are tests: they fail by panicking"
)]
pub mod conformance;
#[cfg(feature = "testing")]
pub mod faulty;

#[cfg(feature = "testing")]
pub use conformance::memory;

pub use bus::{Bus, InProcessBus, Wake};
pub use error::{Effect, Quota, StoreError};
pub use page::{Page, PageRequest};
pub use store::{Backend, Store, StoreReader};
pub use verb::Verb;
