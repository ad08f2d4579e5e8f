//! One page with everything on it, which needs nothing but itself.

use std::fmt::Write as _;

use crate::contention::chart::{Picture, escaped};
use crate::contention::report::{COLUMNS, Report, ScenarioReport, Table};

const STYLE: &str = "\
body { font: 15px/1.45 'DejaVu Sans', Verdana, sans-serif; color: #222; background: #fff; margin: 2rem auto; \
max-width: 1240px; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { color: #555; font-weight: 600; } th:first-child, td:first-child, .words td, .words th { text-align: left; }
td:last-child { text-align: left; } figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
dt { font-weight: 600; float: left; clear: left; width: 9rem; } dd { margin: 0 0 .25rem 9.5rem; }
";

/// The page. `pictures` has those of each scenario.
pub(super) fn html(report: &Report, pictures: &[Vec<Picture>]) -> String {
    let mut body = String::new();
    for (scenario, pictures) in report.scenarios.iter().zip(pictures) {
        body.push_str(&section(scenario, pictures));
    }
    let backend = escaped(report.backend.as_deref().unwrap_or("nothing"));
    let seconds = report.elapsed_ms / 1_000;
    let reason = report.reason.as_ref().map(|reason| format!("<p>Not complete: {}.</p>\n", escaped(reason)));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>interlock lab</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>interlock lab</h1>\n\
         <p>On {backend}, seed {}, in {seconds} s. The same seed gives the same clients and delays; tenants are named \
         anew.</p>\n\
         {}{body}{}</body>\n</html>\n",
        report.seed,
        reason.unwrap_or_default(),
        legend()
    )
}

fn section(scenario: &ScenarioReport, pictures: &[Picture]) -> String {
    let mut text = format!("<h2>{}</h2>\n<p>{}.</p>\n", scenario.scenario, escaped(scenario.sentence));
    match scenario.steps() {
        Some(steps) => text.push_str(&table(&steps, "words")),
        None => text.push_str(&table(&scenario.table(), "numbers")),
    }
    for Picture { title, svg, .. } in pictures {
        write!(text, "<figure aria-label=\"{}\">\n{svg}</figure>\n", escaped(title))
            .expect("writing to a string cannot fail");
    }
    text
}

fn table(table: &Table, class: &str) -> String {
    let cells = |kind: &str, cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| format!("<{kind}>{}</{kind}>", escaped(cell))).collect();
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let titles: Vec<String> = table.titles.iter().map(|title| (*title).to_owned()).collect();
    let rows: String = table.rows.iter().map(|row| cells("td", row)).collect();
    format!("<div class=\"wide\"><table class=\"{class}\">\n{}{rows}</table></div>\n", cells("th", &titles))
}

fn legend() -> String {
    let entry = |column: &crate::contention::report::Column| {
        format!("<dt>{}</dt><dd>{}</dd>\n", column.title, escaped(column.meaning))
    };
    let entries: String = COLUMNS.iter().map(entry).collect();
    format!("<h2>Columns</h2>\n<p>All times are in milliseconds.</p>\n<dl>\n{entries}</dl>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::plan::Size;

    #[test]
    fn the_page_promises_of_a_seed_only_what_it_gives() {
        let report = Report {
            seed: 42,
            size: Size::Tiny,
            limit_ms: 1,
            backend: None,
            elapsed_ms: 1,
            scenarios: Vec::new(),
            reason: None,
            left_behind: Vec::new(),
        };
        let page = html(&report, &[]);
        let promise =
            "seed 42, in 0 s. The same seed gives the same clients and delays; tenants are named anew.</p>";
        assert!(page.contains(promise), "{page}");
    }
}
