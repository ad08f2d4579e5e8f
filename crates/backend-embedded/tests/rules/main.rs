//! What the tables in a file promise, beyond what every backend promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clocks;
mod commits;
mod damage;
mod kills;
mod opening;
mod peeks;
mod rows;
mod scans;
