//! What holders, waiters and loops learn about their locks, and when. A test of a known failure of other lock services has
//! its number (`l3_…`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod cancelling;
mod deliveries;
mod delivery_turns;
mod gathering;
mod holders;
mod kept_results;
mod line;
mod loops;
mod repairs;
mod runs;
mod scene;
mod ticks;
mod waiters;
