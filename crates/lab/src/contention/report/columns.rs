//! The columns of the tables: one list for people at a terminal, for the page and for its legend.

use super::{ArmReport, ScenarioReport};
use crate::contention::figures::{Figures, Quantiles};

/// A column of a table.
pub struct Column {
    pub title: &'static str,
    /// What it tells, for the legend.
    pub meaning: &'static str,
    cell: fn(&Figures) -> Option<String>,
}

/// A table as it is shown: without columns that have nothing to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub titles: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

pub const COLUMNS: [Column; 19] = [
    column("SENT", "requests, retries included", |figures| Some(figures.requests.to_string())),
    column("OK", "answered with 200", |figures| some(figures.ok)),
    column("409", "refused: somebody else has it", |figures| some(figures.held)),
    column("429", "refused: the cap is reached", |figures| some(figures.at_capacity)),
    column("503", "refused: the lock was not got in time", |figures| some(figures.unavailable)),
    column("OTHER", "other answers, or none", |figures| some(figures.other)),
    column("UNANSWERED", "requests without an answer when the time was over", |figures| {
        some(figures.unanswered)
    }),
    column("RETRIES", "requests that were not a contender's first", |figures| some(figures.retries)),
    column("PUT OFF", "results that the server delivered again because the run was busy", |figures| {
        figures.redeliveries.filter(|count| *count > 0).map(|count| count.to_string())
    }),
    column("P50", "half of the requests took at most so many ms", |figures| {
        time(figures.request_ms, |all| all.p50)
    }),
    column("P95", "95 % of the requests took at most so many ms", |figures| {
        time(figures.request_ms, |all| all.p95)
    }),
    column("P99", "99 % of the requests took at most so many ms", |figures| {
        time(figures.request_ms, |all| all.p99)
    }),
    column("SERVED", "contenders that got what they wanted, of all", |figures| {
        Some(format!("{}/{}", figures.served, figures.contenders))
    }),
    column("P99 SERVED", "99 % of those had it after so many ms, their own waiting included", |figures| {
        time(figures.served_ms, |all| all.p99)
    }),
    column("ALL SERVED", "the last had it after so many ms; empty if somebody never had it", |figures| {
        figures.all_served_ms.map(short)
    }),
    column("COMMANDS", "commands to the store for each request", |figures| {
        figures.commands_per_request.map(|commands| format!("{commands:.1}"))
    }),
    column(
        "WAVE",
        "the largest 10 ms bucket of arrivals over the mean one: 1 is smooth; not said where not all are seen",
        |figures| figures.wave.map(|wave| format!("{wave:.1}")),
    ),
    column("RETRY WAVE", "the same of retries alone", |figures| {
        figures.retry_wave.map(|wave| format!("{wave:.1}"))
    }),
    column(
        "SPREAD",
        "the share of slices of the time in which somebody was served: 100 % is even",
        |figures| figures.spread.map(|share| format!("{:.0} %", share * 100.0)),
    ),
];

const fn column(title: &'static str, meaning: &'static str, cell: fn(&Figures) -> Option<String>) -> Column {
    Column { title, meaning, cell }
}

fn some(count: usize) -> Option<String> {
    (count > 0).then(|| count.to_string())
}

fn time(times: Option<Quantiles>, which: fn(&Quantiles) -> f64) -> Option<String> {
    times.as_ref().map(which).map(short)
}

/// Milliseconds, as exactly as they are of use.
fn short(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

impl ScenarioReport {
    /// The arms, one a row.
    #[must_use]
    pub fn table(&self) -> Table {
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
        let row = |(place, arm): (usize, &ArmReport)| {
            let cells = shown.iter().map(|(_, cells)| cells[place].clone().unwrap_or_else(|| "-".to_owned()));
            let notes = has_notes.then(|| arm.notes.join("; "));
            [arm.name.clone()].into_iter().chain(cells).chain(notes).collect()
        };
        Table {
            titles: titles.chain(has_notes.then_some("NOTES")).collect(),
            rows: self.arms.iter().enumerate().map(row).collect(),
        }
    }

    /// The steps of the runbook, one a row; nothing if it is none.
    #[must_use]
    pub fn steps(&self) -> Option<Table> {
        let steps: Vec<_> = self.arms.iter().flat_map(|arm| &arm.steps).collect();
        let row = |step: &&super::StepReport| {
            let verdict = if step.ok { "ok" } else { "not as it must be" };
            let words = [step.action, &step.expected, &step.seen, verdict].map(str::to_owned);
            [step.number.to_string()].into_iter().chain(words).collect()
        };
        (!steps.is_empty()).then(|| Table {
            titles: vec!["STEP", "WHAT", "EXPECTED", "SEEN", "VERDICT"],
            rows: steps.iter().map(row).collect(),
        })
    }
}
