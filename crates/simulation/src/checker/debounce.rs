//! Debounced runs, judged row by row: when they wait longer, when they wait no more, and what they start with.

use std::collections::BTreeMap;

use interlock_backend::local::Table;
use interlock_model::limit::place::{Debounced, RunSlots};
use interlock_model::run::Start;
use interlock_model::{RunId, Timestamp};
use serde_json::Value;

use super::limits::{LimitRows, run_of};
use super::rows::Write;
use crate::Invariant;

/// What the rows of a tenant say of its debounced runs, by run.
#[derive(Default)]
pub(super) struct DebouncedRuns {
    waiting: BTreeMap<String, Debounced>,
    inputs: BTreeMap<String, Value>,
}

/// What one write changed.
#[derive(Default)]
pub(super) struct DebounceBatch {
    /// Runs whose wait changed, with what it was before.
    changed: BTreeMap<String, Option<Debounced>>,
    /// Runs whose starts were written.
    started: Vec<String>,
}

impl DebounceBatch {
    /// Runs that wait no more.
    pub(super) fn ended(&self, runs: &DebouncedRuns) -> u64 {
        let ended = self.changed.iter().filter(|(run, before)| before.is_some() && !runs.waits(run));
        ended.count() as u64
    }
}

impl DebouncedRuns {
    pub(super) fn take(&mut self, batch: &mut DebounceBatch, (table, key, value): &Write) {
        let (run, value) = (run_of(key), value.as_deref());
        if *table == Table::Starts {
            self.inputs.remove(&run);
            let start = value.and_then(|value| serde_json::from_str::<Start>(value).ok());
            self.inputs.extend(start.map(|start| (run.clone(), start.input)));
            batch.started.push(run);
        } else if *table == Table::RunSlots {
            let slots = value.and_then(|value| serde_json::from_str::<RunSlots>(value).ok());
            let before = self.waiting.remove(&run);
            let after = slots.and_then(|slots| slots.debounced);
            self.waiting.extend(after.map(|after| (run.clone(), after)));
            // One decision may write a row more than once.
            batch.changed.entry(run).or_insert(before);
        }
    }

    pub(super) fn waits(&self, run: &str) -> bool {
        self.waiting.contains_key(run)
    }

    pub(super) fn input_of(&self, run: RunId) -> Option<&Value> {
        self.inputs.get(&run.to_string())
    }
}

impl LimitRows {
    pub(super) fn judge_debounce(
        &self,
        batch: &DebounceBatch,
        now: Timestamp,
    ) -> Option<(Invariant, String)> {
        let broken = |what: String| Some((Invariant::QuietIsKept, what));
        for (run, before) in &batch.changed {
            let after = self.debounced.waiting.get(run);
            if before.as_ref() == after {
                continue;
            }
            if let Some(problem) = after.and_then(|after| self.wrong_wait(before.as_ref(), after, now)) {
                return broken(format!("run {run} {problem}"));
            }
            if after.is_some() && !batch.started.contains(run) {
                return broken(format!("run {run} waits longer without a newer start"));
            }
            let Some(before) = before.as_ref().filter(|_| after.is_none()) else { continue };
            if self.queued.contains(run) && now < before.quiet.until && self.rule(before).is_some() {
                return broken(format!("run {run} did not wait until {}", before.quiet.until));
            }
        }
        let mut waiting = self.debounced.waiting.iter();
        let (run, _) = waiting.find(|(run, debounced)| !self.is_timed(run, debounced))?;
        Some((Invariant::NoStartableWaits, format!("debounced run {run} has no timer")))
    }

    /// How long the limit has a run wait, if it still debounces.
    fn rule(&self, debounced: &Debounced) -> Option<(u64, u64)> {
        let limit = self.limits.get(debounced.limit.as_str())?;
        let quiet = u64::from(limit.document.quiet_sec?);
        Some((quiet, limit.document.max_delay_sec.map_or(quiet * 10, u64::from)))
    }

    fn wrong_wait(&self, before: Option<&Debounced>, after: &Debounced, now: Timestamp) -> Option<String> {
        let Some((quiet, delay)) = self.rule(after) else { return Some("waits for no limit".to_owned()) };
        let seconds = |count: u64| std::time::Duration::from_secs(count);
        let first_at = before.map_or(now, |before| before.first_at);
        let latest = (first_at + seconds(delay)).max(now);
        let until = (now + seconds(quiet)).min(latest);
        let starts = before.map_or(0, |before| before.quiet.starts) + 1;
        let is_right = (after.first_at, after.quiet.until, after.quiet.latest) == (first_at, until, latest);
        (!is_right || after.quiet.starts != starts)
            .then(|| format!("waits for {:?} and not until {until}, {latest} at the latest", after.quiet))
    }

    fn is_timed(&self, run: &str, debounced: &Debounced) -> bool {
        let key = format!("/{:015}/{}/+{run}", debounced.quiet.until.as_millis(), debounced.limit);
        self.timers.iter().any(|timer| timer.ends_with(&key))
    }
}
