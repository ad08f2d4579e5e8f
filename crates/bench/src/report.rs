//! The figures, as a table for people and as JSON for machines.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;
use comfy_table::Table;
use serde_json::{Value, json};

use crate::load::Measured;
use crate::memory::Memory;

#[derive(Debug, Default)]
pub(crate) struct Report {
    rounds: BTreeMap<&'static str, Vec<Measured>>,
    pub(crate) memory: Option<Memory>,
}

/// A figure beside what it should be.
struct Target {
    name: &'static str,
    value: f64,
    bound: f64,
    is_met: bool,
}

impl Report {
    pub(crate) fn add(&mut self, name: &'static str, measured: Measured) {
        self.rounds.entry(name).or_default().push(measured);
    }

    /// The round whose rate is in the middle.
    fn median(&self, name: &str) -> Option<&Measured> {
        let mut rounds: Vec<&Measured> = self.rounds.get(name)?.iter().collect();
        rounds.sort_by(|left, right| left.per_second.total_cmp(&right.per_second));
        rounds.get(rounds.len() / 2).copied()
    }

    fn targets(&self) -> Vec<Target> {
        let rate = |name| self.median(name).map_or(f64::NAN, |measured| measured.per_second);
        let (http, commit) = (rate("empty handler"), rate("bare group commit"));
        let at_least = |name, value: f64, bound: f64| Target { name, value, bound, is_met: value >= bound };
        let at_most = |name, value: f64, bound: f64| Target { name, value, bound, is_met: value <= bound };
        let tail = self.median("admitted starts").map_or(f64::NAN, |it| ratio(it.p99_us, it.p50_us));
        let mut targets = vec![
            at_least("admitted / lower ceiling", rate("admitted starts") / http.min(commit), 0.5),
            at_least("refused / empty handler", rate("refused starts") / http, 0.7),
            at_most("p99 / p50, admitted, 64 clients", tail, 8.0),
        ];
        if let Some(memory) = &self.memory {
            targets.push(at_most("bytes per idle active run", ratio(memory.bytes_per_run(), 1), 4_096.0));
        }
        targets
    }

    pub(crate) fn print(&self, as_json: bool) -> Result<()> {
        let text = if as_json { serde_json::to_string_pretty(&self.json())? } else { self.tables() };
        writeln!(std::io::stdout(), "{text}")?;
        Ok(())
    }

    fn json(&self) -> Value {
        let measured: BTreeMap<_, _> =
            self.rounds.keys().filter_map(|name| Some((name, self.median(name)?))).collect();
        let rows = measured.into_iter().map(|(name, it)| {
            json!({"name": name, "per_second": it.per_second, "p50_us": it.p50_us, "p99_us": it.p99_us})
        });
        let targets = self.targets();
        let targets = targets
            .iter()
            .map(|it| json!({"name": it.name, "value": it.value, "bound": it.bound, "met": it.is_met}));
        let memory = self.memory.as_ref().map(|it| {
            json!({"runs": it.runs, "before_kib": it.before_kib, "after_kib": it.after_kib,
                   "bytes_per_run": it.bytes_per_run()})
        });
        json!({
            "measured": rows.collect::<Vec<_>>(), "targets": targets.collect::<Vec<_>>(), "memory": memory,
        })
    }

    fn tables(&self) -> String {
        let mut measured = Table::new();
        measured.set_header(["measured", "per second", "p50 µs", "p99 µs"]);
        for name in self.rounds.keys() {
            if let Some(it) = self.median(name) {
                let rate = format!("{:.0}", it.per_second);
                measured.add_row([(*name).to_owned(), rate, it.p50_us.to_string(), it.p99_us.to_string()]);
            }
        }
        let mut targets = Table::new();
        targets.set_header(["target", "value", "bound", "met"]);
        for it in self.targets() {
            let met = if it.is_met { "yes" } else { "NO" };
            targets.add_row([
                it.name.to_owned(),
                format!("{:.2}", it.value),
                it.bound.to_string(),
                met.to_owned(),
            ]);
        }
        format!("{measured}\n{targets}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds and bytes of a benchmark are far below 2^52")]
fn ratio(numerator: u64, denominator: u64) -> f64 {
    numerator as f64 / denominator.max(1) as f64
}
