//! Each stage that makes something ready sends the right wake-up, and exactly one. A poll makes up for a lost wake-up, so
//! that nothing but these rules would notice that one is never sent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changes;
mod jobs;
mod limits;
mod locks;
mod repairs;
mod runs;
mod scene;
mod turns;
