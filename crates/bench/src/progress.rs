//! Shows how far a long measurement is.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) fn bar(steps: u64) -> Result<ProgressBar> {
    let bar = ProgressBar::new(steps);
    bar.set_style(ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} {msg}")?);
    Ok(bar)
}
