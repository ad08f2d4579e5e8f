//! What travels over HTTP: the types of every body and the codes of every problem. One file per noun.
//!
//! Server and clients use the same types, so that they cannot drift apart. Requests reject unknown fields; answers may
//! grow. Absent values of runs, steps and jobs are written as `null`, so that a typed client sees every field. The
//! feature `client` adds a [`client::Client`], a [`worker::Worker`] loop and a [guard](lock_guard) for work under a
//! lock.

pub mod approvals;
pub mod budgets;
pub mod dead_letters;
pub mod dispatch_policy;
pub mod doctor;
pub mod history;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod locks;
pub mod named_limits;
pub mod page;
pub mod problem;
pub mod retry_policies;
pub mod rollouts;
pub mod runs;
pub mod schema;
pub mod sent_events;
pub mod status;
pub mod time;
pub mod why;
pub mod workers;
pub mod workflows;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod events;
#[cfg(feature = "client")]
pub mod lock_guard;
#[cfg(feature = "client")]
pub mod worker;

pub use page::{Page, PageQuery};
pub use problem::{Code, Problem};
pub use time::Time;
