//! The files of a report: JSON, CSV, pictures and a page, in one folder.

mod csv;
mod html;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::chart;
use super::report::Report;

/// What to open.
pub const PAGE: &str = "index.html";

/// Writes all of them, and tells which.
pub fn write(report: &Report, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    let mut put = |name: String, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content)?;
        written.push(path);
        io::Result::Ok(())
    };
    put("lab.json".to_owned(), serde_json::to_string_pretty(report)?.as_bytes())?;
    let mut all = Vec::new();
    for scenario in &report.scenarios {
        put(format!("{}.csv", scenario.scenario), csv::csv(scenario).as_bytes())?;
        let pictures = chart::pictures(scenario);
        for picture in &pictures {
            put(format!("{}.svg", picture.name), picture.svg.as_bytes())?;
            put(format!("{}.png", picture.name), &chart::png(&picture.svg)?)?;
        }
        all.push(pictures);
    }
    put(PAGE.to_owned(), html::html(report, &all).as_bytes())?;
    Ok(written)
}
