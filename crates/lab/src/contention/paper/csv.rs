//! A scenario as lines of values, for spreadsheets.

use serde_json::Value;

use crate::contention::report::ScenarioReport;

/// One line a step, or one line an arm with every figure under the name that it has in the JSON.
pub(super) fn csv(scenario: &ScenarioReport) -> String {
    let table = match scenario.steps() {
        Some(steps) => {
            let titles = steps.titles.into_iter().map(str::to_lowercase).collect();
            [titles].into_iter().chain(steps.rows).collect()
        }
        None => arms(scenario),
    };
    let line =
        |cells: &Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\r\n";
    table.iter().map(line).collect()
}

fn arms(scenario: &ScenarioReport) -> Vec<Vec<String>> {
    let flat = |arm: &crate::contention::report::ArmReport| {
        let figures =
            arm.figures.as_ref().map(|figures| serde_json::to_value(figures).expect("figures are JSON"));
        figures.map(|figures| flattened("", &figures)).unwrap_or_default()
    };
    let all: Vec<_> = scenario.arms.iter().map(flat).collect();
    let names: Vec<String> = all
        .iter()
        .max_by_key(|cells| cells.len())
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    let value = |cells: &[(String, String)], name: &String| {
        cells.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let row = |(arm, cells): (&crate::contention::report::ArmReport, &Vec<(String, String)>)| {
        let own = [arm.name.clone(), arm.server.join(" "), arm.seed.to_string()];
        let figures = names.iter().map(|name| value(cells, name));
        own.into_iter().chain(figures).chain([arm.notes.join("; ")]).collect()
    };
    let titles = ["arm", "server", "seed"].map(str::to_owned).into_iter();
    let titles = titles.chain(names.iter().cloned()).chain(["notes".to_owned()]).collect();
    [titles].into_iter().chain(scenario.arms.iter().zip(&all).map(row)).collect()
}

/// `{"request_ms": {"p50": 1}}` as `request_ms_p50` and `1`.
fn flattened(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(members) => {
            let prefix = if name.is_empty() { String::new() } else { format!("{name}_") };
            members
                .iter()
                .flat_map(|(member, value)| flattened(&format!("{prefix}{member}"), value))
                .collect()
        }
        Value::Null => vec![(name.to_owned(), String::new())],
        Value::String(text) => vec![(name.to_owned(), text.clone())],
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            vec![(name.to_owned(), other.to_string())]
        }
    }
}

/// As RFC 4180 has it.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::chart;
    use crate::contention::plan::Scenario;

    #[test]
    fn every_line_has_as_many_cells_as_the_first() {
        let mut scenario = chart::tests::measured(Scenario::Admission);
        // One that was not measured, and one of which less is known.
        scenario.arms[0].figures = None;
        if let Some(figures) = &mut scenario.arms[1].figures {
            (figures.request_ms, figures.commands) = (None, None);
        }
        let text = csv(&scenario);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), scenario.arms.len() + 1);
        assert!(
            lines[0].starts_with("arm,server,seed,") && lines[0].contains("request_ms_p99"),
            "{}",
            lines[0]
        );
        // The names of arms have commas, and are quoted.
        let cells = |line: &str| {
            let outside = line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
            outside + 1
        };
        assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{text}");
        assert!(lines[1].starts_with("\"lock fixed:10ms, no retry\","), "{}", lines[1]);
    }
}
