//! Fills a store before it is measured.

use anyhow::Result;
use indicatif::ProgressBar;

use super::benchmark::{Creating, Sending, send};
use super::machines::Machines;

/// What one call makes at most: after each, the bar moves and what was made is counted.
const CHUNK: u64 = 50_000;
const CLIENTS: usize = 16;
const PIPELINE: usize = 16;

pub(crate) async fn fill(
    machines: &Machines,
    creating: &Creating,
    things: u64,
    progress: &ProgressBar,
) -> Result<()> {
    let mut missing = things;
    while missing > 0 {
        let requests = missing.min(CHUNK);
        send(machines, creating, Sending { requests, clients: CLIENTS, pipeline: PIPELINE }).await?;
        missing -= requests;
        progress.inc(requests);
    }
    Ok(())
}
