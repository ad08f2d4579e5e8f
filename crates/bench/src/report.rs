//! The figures, as a table for people and as JSON for machines.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;
use comfy_table::Table;
use serde_json::{Value, json};

use crate::load::Measured;
use crate::memory::Memory;
use crate::targets::Target;

#[derive(Debug, Default)]
pub(crate) struct Report {
    rounds: BTreeMap<&'static str, Vec<Measured>>,
    pub(crate) memory: Option<Memory>,
    pub(crate) redis_memory: Vec<RedisMemory>,
    pub(crate) commands: Vec<Commands>,
    pub(crate) counted: Vec<Counted>,
}

/// What was counted in one round, or in all of them.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
}

/// Commands that the gateways sent to Redis for each grant of a lock.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) name: &'static str,
    pub(crate) per_grant: f64,
}

/// What a Redis server said of itself.
#[derive(Debug)]
pub(crate) struct RedisMemory {
    /// What was in it.
    pub(crate) content: String,
    pub(crate) used: String,
}

impl Report {
    pub(crate) fn add(&mut self, name: &'static str, measured: Measured) {
        self.rounds.entry(name).or_default().push(measured);
    }

    /// The round whose rate is in the middle.
    pub(crate) fn median(&self, name: &str) -> Option<&Measured> {
        let mut rounds: Vec<&Measured> = self.rounds.get(name)?.iter().collect();
        rounds.sort_by(|left, right| left.per_second.total_cmp(&right.per_second));
        rounds.get(rounds.len() / 2).copied()
    }

    /// The median rate; not a number if it was not measured.
    pub(crate) fn rate(&self, name: &str) -> f64 {
        self.median(name).map_or(f64::NAN, |measured| measured.per_second)
    }

    /// The most commands for each grant of any round; not a number if there was none.
    pub(crate) fn commands_per_grant(&self, name: &str) -> f64 {
        let rounds = self.commands.iter().filter(|commands| commands.name == name);
        rounds.map(|commands| commands.per_grant).fold(f64::NAN, f64::max)
    }

    /// The most that was counted in any round.
    pub(crate) fn most(&self, name: &str) -> u64 {
        self.counted.iter().filter(|it| it.name == name).map(|it| it.count).max().unwrap_or(u64::MAX)
    }

    pub(crate) fn print(&self, targets: &[Target], as_json: bool) -> Result<()> {
        let text =
            if as_json { serde_json::to_string_pretty(&self.json(targets))? } else { self.tables(targets) };
        writeln!(std::io::stdout(), "{text}")?;
        Ok(())
    }

    fn json(&self, targets: &[Target]) -> Value {
        let measured: BTreeMap<_, _> =
            self.rounds.keys().filter_map(|name| Some((name, self.median(name)?))).collect();
        let rows = measured.into_iter().map(|(name, it)| {
            json!({"name": name, "per_second": it.per_second, "p50_us": it.p50_us, "p99_us": it.p99_us})
        });
        let memory = self.memory.as_ref().map(|it| {
            json!({"runs": it.runs, "before_kib": it.before_kib, "after_kib": it.after_kib,
                   "bytes_per_run": it.bytes_per_run()})
        });
        let mut all = json!({
            "measured": rows.collect::<Vec<_>>(),
            "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
            "memory": memory,
        });
        if !self.redis_memory.is_empty() {
            let rows = self.redis_memory.iter().map(|it| json!({"content": it.content, "used": it.used}));
            all["redis_memory"] = rows.collect();
        }
        if !self.commands.is_empty() {
            let rows = self.commands.iter().map(|it| json!({"name": it.name, "per_grant": it.per_grant}));
            all["commands"] = rows.collect();
        }
        if !self.counted.is_empty() {
            let rows = self.counted.iter().map(|it| json!({"name": it.name, "count": it.count}));
            all["counted"] = rows.collect();
        }
        all
    }

    fn tables(&self, targets: &[Target]) -> String {
        let mut measured = Table::new();
        measured.set_header(["measured", "per second", "p50 µs", "p99 µs"]);
        for name in self.rounds.keys() {
            if let Some(it) = self.median(name) {
                let rate = format!("{:.0}", it.per_second);
                measured.add_row([(*name).to_owned(), rate, it.p50_us.to_string(), it.p99_us.to_string()]);
            }
        }
        let mut bounds = Table::new();
        bounds.set_header(["target", "value", "bound", "met"]);
        bounds.add_rows(targets.iter().map(Target::row));
        let memory = self.redis_memory.iter().map(|it| format!("Redis used {} with {}", it.used, it.content));
        let commands = self.commands.iter();
        let commands = commands.map(|it| format!("{:.1} commands for each grant: {}", it.per_grant, it.name));
        let counted = self.counted.iter().map(|it| format!("{} {}", it.count, it.name));
        let parts = [measured.to_string(), bounds.to_string()].into_iter().chain(memory).chain(commands);
        parts.chain(counted).collect::<Vec<_>>().join("\n")
    }
}
