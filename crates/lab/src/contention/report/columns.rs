//! The columns of the tables in the terminal and on the page.

use super::{ArmReport, ScenarioReport, StepReport};
use crate::contention::figures::{ArmFigures, Quantiles};

pub(in crate::contention) struct Column {
    pub(in crate::contention) title: &'static str,
    /// The explanation in the legend.
    pub(in crate::contention) meaning: &'static str,
    cell: fn(&ArmFigures) -> Option<String>,
}

/// A table without its empty columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTable {
    pub titles: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

pub(in crate::contention) const COLUMNS: [Column; 19] = [
    column("SENT", "requests, retries included", |figures| Some(figures.requests.to_string())),
    column("OK", "responses with status 200", |figures| non_zero(figures.ok)),
    column("409", "refused: another contender holds the lock", |figures| non_zero(figures.held)),
    column("429", "refused: the cap is reached", |figures| non_zero(figures.at_capacity)),
    column("503", "refused: the admission lock was not acquired in time", |figures| {
        non_zero(figures.unavailable)
    }),
    column("OTHER", "other responses and failed requests", |figures| non_zero(figures.other)),
    column("UNANSWERED", "requests without a response at the time limit", |figures| {
        non_zero(figures.unanswered)
    }),
    column("RETRIES", "requests after a contender's first", |figures| non_zero(figures.retries)),
    column("DEFERRED", "results that the server redelivered because the run was busy", |figures| {
        figures.redeliveries.filter(|count| *count > 0).map(|count| count.to_string())
    }),
    column("P50", "50 % of the requests took at most this long", |figures| {
        time(figures.request_ms, |all| all.p50)
    }),
    column("P95", "95 % of the requests took at most this long", |figures| {
        time(figures.request_ms, |all| all.p95)
    }),
    column("P99", "99 % of the requests took at most this long", |figures| {
        time(figures.request_ms, |all| all.p99)
    }),
    column("SERVED", "successful contenders, of all", |figures| {
        Some(format!("{}/{}", figures.served, figures.contenders))
    }),
    column("P99 SERVED", "99 % of them were served within this time, waiting included", |figures| {
        time(figures.served_ms, |all| all.p99)
    }),
    column(
        "ALL SERVED",
        "the last contender was served after this time; empty if one never was",
        |figures| figures.all_served_ms.map(short),
    ),
    column("COMMANDS", "store commands per request", |figures| {
        figures.commands_per_request.map(|commands| format!("{commands:.1}"))
    }),
    column(
        "WAVE",
        "peak over mean of arrivals per 10 ms: 1 is smooth; empty if the lab does not see all arrivals",
        |figures| figures.wave.map(|wave| format!("{wave:.1}")),
    ),
    column("RETRY WAVE", "the same for retries only", |figures| {
        figures.retry_wave.map(|wave| format!("{wave:.1}"))
    }),
    column("SPREAD", "the share of time slices in which a contender was served: 100 % is even", |figures| {
        figures.spread.map(|share| format!("{:.0} %", share * 100.0))
    }),
];

const fn column(
    title: &'static str,
    meaning: &'static str,
    cell: fn(&ArmFigures) -> Option<String>,
) -> Column {
    Column { title, meaning, cell }
}

fn non_zero(count: usize) -> Option<String> {
    (count > 0).then(|| count.to_string())
}

fn time(times: Option<Quantiles>, quantile: fn(&Quantiles) -> f64) -> Option<String> {
    times.as_ref().map(quantile).map(short)
}

/// Milliseconds, with one decimal below 10.
fn short(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

impl ScenarioReport {
    /// One row per arm.
    pub fn table(&self) -> TextTable {
        let cells = |column: &Column| -> Vec<Option<String>> {
            self.arms.iter().map(|arm| arm.figures.as_ref().and_then(column.cell)).collect()
        };
        let shown: Vec<_> = COLUMNS
            .iter()
            .map(|column| (column.title, cells(column)))
            .filter(|(_, cells)| cells.iter().any(Option::is_some))
            .collect();
        let has_notes = self.arms.iter().any(|arm| !arm.notes.is_empty());
        let titles = ["ARM"].into_iter().chain(shown.iter().map(|(title, _)| *title));
        let row = |(index, arm): (usize, &ArmReport)| {
            let cells = shown.iter().map(|(_, cells)| cells[index].clone().unwrap_or_else(|| "-".to_owned()));
            let notes = has_notes.then(|| arm.notes.join("; "));
            [arm.arm.name.clone()].into_iter().chain(cells).chain(notes).collect()
        };
        TextTable {
            titles: titles.chain(has_notes.then_some("NOTES")).collect(),
            rows: self.arms.iter().enumerate().map(row).collect(),
        }
    }

    /// One row per step, if the scenario is a runbook.
    pub fn steps(&self) -> Option<TextTable> {
        let steps: Vec<_> = self.arms.iter().flat_map(|arm| &arm.steps).collect();
        let row = |step: &&StepReport| {
            let verdict = if step.ok { "ok" } else { "unexpected" };
            let cells = [step.action, step.expected, &step.seen, verdict].map(str::to_owned);
            [step.number.to_string()].into_iter().chain(cells).collect()
        };
        (!steps.is_empty()).then(|| TextTable {
            titles: vec!["STEP", "WHAT", "EXPECTED", "SEEN", "VERDICT"],
            rows: steps.iter().map(row).collect(),
        })
    }
}
