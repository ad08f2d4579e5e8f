//! Tunings that hold on every replica, and roll-outs that judge themselves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rollouts;
mod scene;
mod tunings;
