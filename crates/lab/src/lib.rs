//! What proves the promises on a running installation, as a library: the command line prints what it finds.
//!
//! * [`drill`]: a holder that is paused past its lease, and what becomes of its late writes

pub mod drill;
