//! Writes a report as files: JSON, CSV, SVG charts and an HTML page.

mod csv;
mod html;

use std::fs;
use std::io;
use std::path::Path;

use super::chart;
use super::report::LabReport;

/// The name of the HTML page.
pub const PAGE: &str = "index.html";

/// Writes all files into the folder and returns their number.
pub fn write(report: &LabReport, folder: &Path) -> io::Result<usize> {
    let mut count = 0;
    let mut write = |name: &str, content: &str| {
        count += 1;
        fs::write(folder.join(name), content)
    };
    write("lab.json", &serde_json::to_string_pretty(report)?)?;
    let mut charts = Vec::new();
    for scenario in &report.scenarios {
        write(&format!("{}.csv", scenario.scenario), &csv::csv(scenario))?;
        let drawn = chart::charts(scenario);
        for chart in &drawn {
            write(&format!("{}.svg", chart.name), &chart.svg)?;
        }
        charts.push(drawn);
    }
    write(PAGE, &html::html(report, &charts))?;
    Ok(count)
}
