//! The documented lock strategies: starts under the lock of their tenant, results under the lock of their run.
//!
//! Admission and results know them only by the traits that they define. Without this folder the defaults remain: one
//! atomic step per start, and an inbox per run.

mod admission;
mod admission_lock;
mod redelivery;
mod reservation;
mod results;

pub use admission::StartsUnderLock;
pub use results::ResultsUnderLock;
