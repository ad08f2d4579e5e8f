//! Verifies and measures a running installation. The command line prints the results.
//!
//! * [`contention`]: puts the same load on different strategies and retry policies and compares the measurements
//! * [`drill`]: pauses a holder past its lease and checks that its late writes are refused

pub mod contention;
pub mod drill;
