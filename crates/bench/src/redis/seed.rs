//! Fills a store before it is measured.

use anyhow::Result;
use indicatif::ProgressBar;

use super::direct::{Creating, send};
use super::machines::Machines;

/// What one call makes at most: after each, the bar moves.
const CHUNK: u64 = 1_000;

pub(crate) async fn fill(
    machines: &Machines,
    creating: &Creating,
    things: u64,
    progress: &ProgressBar,
) -> Result<()> {
    let mut missing = things;
    while missing > 0 {
        let requests = missing.min(CHUNK);
        send(machines, creating, requests).await?;
        missing -= requests;
        progress.inc(requests);
    }
    Ok(())
}
