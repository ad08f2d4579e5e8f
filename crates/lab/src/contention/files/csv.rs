//! A scenario as CSV.

use serde_json::Value;

use crate::contention::plan::LabArm;
use crate::contention::report::{ArmReport, ScenarioReport};

/// One line per step, or one line per arm with every figure under its JSON name.
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
    let figures = |arm: &ArmReport| {
        let figures = arm.figures.as_ref().map(|figures| serde_json::to_value(figures).expect("valid JSON"));
        figures.map(|figures| flattened("", &figures)).unwrap_or_default()
    };
    let all: Vec<_> = scenario.arms.iter().map(figures).collect();
    // An arm without a measured time lacks the columns of its quantiles.
    let longest = all.iter().max_by_key(|cells| cells.len()).cloned().unwrap_or_default();
    let names: Vec<String> = longest.into_iter().map(|(name, _)| name).collect();
    let value = |cells: &[(String, String)], name: &String| {
        cells.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let row = |(arm, cells): (&ArmReport, &Vec<(String, String)>)| {
        let LabArm { name, server, seed, .. } = &arm.arm;
        let own = [name.clone(), server.join(" "), seed.number().to_string()];
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
            let member = |(member, value): (&String, &Value)| flattened(&format!("{prefix}{member}"), value);
            members.iter().flat_map(member).collect()
        }
        Value::Null => vec![(name.to_owned(), String::new())],
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            vec![(name.to_owned(), value.to_string())]
        }
    }
}

/// Quotes a cell by RFC 4180.
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
    use crate::contention::plan::LabScenario;

    #[test]
    fn all_lines_have_the_same_number_of_cells() {
        let mut scenario = chart::tests::measured(LabScenario::Admission);
        // One arm was not measured, and one has fewer figures.
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
        // The names of arms contain commas and are quoted.
        let cells = |line: &str| {
            let outside = line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
            outside + 1
        };
        assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{text}");
        assert!(lines[1].starts_with("\"lock fixed:10ms, no retry\","), "{}", lines[1]);
    }
}
