//! A self-contained HTML page with all tables and charts.

use std::fmt::Write as _;

use crate::contention::chart::{Chart, escaped};
use crate::contention::report::{COLUMNS, Column, LabReport, ScenarioReport, TextTable};

const STYLE: &str = "\
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 2rem auto; \
max-width: 1240px; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { color: #555; font-weight: 600; } th:first-child, td:first-child, .steps td, .steps th { text-align: left; }
td:last-child { text-align: left; } figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
dt { font-weight: 600; float: left; clear: left; width: 9rem; } dd { margin: 0 0 .25rem 9.5rem; }
";

/// The page. `charts` has the charts of each scenario.
pub(super) fn html(report: &LabReport, charts: &[Vec<Chart>]) -> String {
    let sections: String =
        report.scenarios.iter().zip(charts).map(|(scenario, charts)| section(scenario, charts)).collect();
    let backend = escaped(report.backend.as_deref().unwrap_or("nothing"));
    let seconds = report.elapsed_ms / 1_000;
    let reason = report.reason.as_ref().map(|reason| format!("<p>Incomplete: {}.</p>\n", escaped(reason)));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>interlock lab</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>interlock lab</h1>\n\
         <p>On {backend}, seed {}, in {seconds} s. The same seed gives the same clients and delays; tenant names \
         differ.</p>\n\
         {}{sections}{}</body>\n</html>\n",
        report.seed,
        reason.unwrap_or_default(),
        legend()
    )
}

fn section(scenario: &ScenarioReport, charts: &[Chart]) -> String {
    let mut text = format!("<h2>{}</h2>\n<p>{}.</p>\n", scenario.scenario, escaped(scenario.sentence));
    text.push_str(&match scenario.steps() {
        Some(steps) => table(&steps, "steps"),
        None => table(&scenario.table(), "arms"),
    });
    for Chart { title, svg, .. } in charts {
        write!(text, "<figure aria-label=\"{}\">\n{svg}</figure>\n", escaped(title))
            .expect("writing to a string cannot fail");
    }
    text
}

fn table(table: &TextTable, class: &str) -> String {
    let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<_> = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let titles = row("th", &mut table.titles.iter().copied());
    let rows: String =
        table.rows.iter().map(|cells| row("td", &mut cells.iter().map(String::as_str))).collect();
    format!("<div class=\"wide\"><table class=\"{class}\">\n{titles}{rows}</table></div>\n")
}

fn legend() -> String {
    let entry = |column: &Column| format!("<dt>{}</dt><dd>{}</dd>\n", column.title, escaped(column.meaning));
    let entries: String = COLUMNS.iter().map(entry).collect();
    format!("<h2>Columns</h2>\n<p>All times are in milliseconds.</p>\n<dl>\n{entries}</dl>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::plan::LabSize;

    #[test]
    fn the_page_says_what_a_seed_reproduces() {
        let report = LabReport {
            seed: 42,
            size: LabSize::Tiny,
            limit_ms: 1,
            backend: None,
            elapsed_ms: 1,
            scenarios: Vec::new(),
            reason: None,
            left_behind: Vec::new(),
        };
        let page = html(&report, &[]);
        let sentence =
            "seed 42, in 0 s. The same seed gives the same clients and delays; tenant names differ.</p>";
        assert!(page.contains(sentence), "{page}");
    }
}
