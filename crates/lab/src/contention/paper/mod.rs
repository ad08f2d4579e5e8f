//! The files of a report: JSON, CSV, pictures and a page, in one folder.

mod csv;
mod html;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use super::chart::{self, Picture};
use super::report::{Report, ScenarioReport};

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
    for (scenario, drawn) in report.scenarios.iter().zip(draw_all(&report.scenarios)?) {
        put(format!("{}.csv", scenario.scenario), csv::csv(scenario).as_bytes())?;
        let mut pictures = Vec::new();
        for (picture, pixels) in drawn {
            put(format!("{}.svg", picture.name), picture.svg.as_bytes())?;
            put(format!("{}.png", picture.name), &pixels)?;
            pictures.push(picture);
        }
        all.push(pictures);
    }
    put(PAGE.to_owned(), html::html(report, &all).as_bytes())?;
    Ok(written)
}

/// A picture, and the same in pixels.
type Drawn = (Picture, Vec<u8>);

/// The pictures of each scenario. All scenarios are drawn at once: on a machine that is busy, one after the other takes
/// longer than anybody waits.
fn draw_all(scenarios: &[ScenarioReport]) -> io::Result<Vec<Vec<Drawn>>> {
    thread::scope(|scope| {
        let drawing: Vec<_> = scenarios.iter().map(|scenario| scope.spawn(|| draw(scenario))).collect();
        let drawn = |one: thread::ScopedJoinHandle<'_, io::Result<Vec<Drawn>>>| {
            one.join().unwrap_or_else(|_| Err(io::Error::other("a picture could not be drawn")))
        };
        drawing.into_iter().map(drawn).collect()
    })
}

fn draw(scenario: &ScenarioReport) -> io::Result<Vec<Drawn>> {
    let pictures = chart::pictures(scenario).into_iter();
    pictures.map(|picture| chart::png(&picture.svg).map(|pixels| (picture, pixels))).collect()
}
