//! Locks that tell the truth: what holders, waiters and loops are told, and when. Tests of a known failure of other
//! lock services bear its number (`l3_…`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cancelling;
mod deliveries;
mod delivery_turns;
mod gathering;
mod holders;
mod kept_results;
mod line;
mod loops;
mod mending;
mod runs;
mod scene;
mod ticks;
mod told;
mod waiters;
