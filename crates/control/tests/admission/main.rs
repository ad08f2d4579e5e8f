//! Starts under their tenant's admission lock: how they wait, what they leave behind, and what their death costs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cleanup;
mod kills;
mod line;
mod outcomes;
mod scene;
mod waiting;
