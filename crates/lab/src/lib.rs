//! What proves the promises on a running installation, as a library: the command line prints what it finds.
//!
//! * [`contention`]: the same load on different strategies and retry policies, measured side by side
//! * [`drill`]: a holder that is paused past its lease, and what becomes of its late writes

pub mod contention;
pub mod drill;
