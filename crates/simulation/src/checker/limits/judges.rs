//! What must be true of limits and their queues after each decision.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::local::Table;
use interlock_model::Timestamp;
use interlock_model::limit::document::RateDocument;

use super::{Batch, LimitRows, STARTS_REMEMBERED, TENANT_RUNS, Verdict, is_in_lane};
use crate::Invariant;

impl LimitRows {
    /// No slot is given beyond a limit, or while it is paused. The cap of a start is judged with its answer.
    pub(super) fn judge_slots(&self, batch: &Batch, cap: usize) -> Verdict {
        for group in &batch.given {
            let (live, most, _) = self.state(group, cap);
            if most.is_some_and(|most| live > most) {
                return Some((Invariant::LimitHolds, format!("{live} runs of {group}, at most {most:?}")));
            }
        }
        if batch.started.difference(&batch.created).next().is_some() && self.active.len() > cap {
            return Some((Invariant::Cap, format!("a queued run got slot {} of {cap}", self.active.len())));
        }
        let own = (!batch.started.is_empty()).then(|| TENANT_RUNS.to_owned());
        let mut given = batch.given.iter().chain(&own);
        let paused = given.find(|group| self.state(group, cap).2)?;
        Some((Invariant::LimitHolds, format!("a run started in {paused}, which is paused")))
    }

    pub(super) fn judge_rates(&mut self, batch: &Batch, now: Timestamp) -> Verdict {
        for group in &batch.given {
            let Some(RateDocument { starts, period_sec, burst }) = self.rate(group) else { continue };
            let times = self.starts.entry(group.clone()).or_default();
            times.push(now);
            let drop_first = times.len().saturating_sub(STARTS_REMEMBERED);
            times.drain(..drop_first);
            let interval = u64::from(period_sec) * 1_000_000 / u64::from(starts);
            for (position, since) in times.iter().enumerate() {
                let elapsed = u64::try_from(now.since(*since).as_micros()).unwrap_or(u64::MAX);
                let allowed = u64::from(burst.unwrap_or(starts)) + elapsed / interval;
                let count = (times.len() - position) as u64;
                if count > allowed {
                    return Some((
                        Invariant::LimitHolds,
                        format!("{count} starts of {group} in {elapsed} µs"),
                    ));
                }
            }
        }
        None
    }

    /// What a group counts is what there is.
    pub(super) fn judge_counts(&self) -> Verdict {
        let names: BTreeSet<&String> =
            self.groups.keys().chain(self.slots.keys()).chain(self.queues.keys()).collect();
        for name in names {
            let live = self.slots.get(name).map_or(0, BTreeSet::len);
            let queued = self.queues.get(name).map_or(0, BTreeMap::len);
            let (live_written, queued_written) = if name == TENANT_RUNS {
                (live, self.tenant.runs_queued as usize)
            } else {
                let group = self.groups.get(name).copied().unwrap_or_default();
                (group.live as usize, group.queued as usize)
            };
            if (live, queued) != (live_written, queued_written) {
                return Some((
                    Invariant::SlotsAreLiveRuns,
                    format!(
                        "{name} counts {live_written} live and {queued_written} waiting runs, and has {live} and {queued}"
                    ),
                ));
            }
        }
        None
    }

    /// A run has all of its slots or none, and waits in one queue or in none.
    pub(super) fn judge_runs(&self) -> Verdict {
        for (run, slots) in &self.runs {
            let held = slots.claims.iter().filter(|claim| {
                let group = format!("{}/{}", claim.limit, claim.group.escaped());
                self.slots.get(&group).is_some_and(|slots| slots.contains(run))
            });
            let has_begun = match slots.parent {
                None => self.active.contains(run),
                Some(_) => slots.waiting.is_none(),
            };
            let expected = if has_begun { slots.claims.len() } else { 0 };
            if held.count() != expected {
                return Some((
                    Invariant::AllSlotsOrNone,
                    format!("run {run} does not hold {expected} slots"),
                ));
            }
        }
        if let Some((child, group)) = self.runs.keys().find_map(|run| Some((run, self.counted_above(run)?))) {
            return Some((Invariant::ChildInItsRootsSlot, format!("child {child} counts in {group}, too")));
        }
        let mut places: BTreeMap<&String, usize> = BTreeMap::new();
        for run in self.queues.values().flat_map(BTreeMap::values) {
            *places.entry(run).or_default() += 1;
            if self.active.contains(run) {
                return Some((Invariant::AllSlotsOrNone, format!("run {run} waits and holds a slot")));
            }
        }
        for run in &self.queued {
            let count = places.get(run).copied().unwrap_or_default();
            let is_settled = self.active.contains(run)
                || self.debounced.waits(run)
                || [Table::Ready, Table::RunLeases]
                    .iter()
                    .any(|table| self.awaited.contains(&(*table, run.clone())));
            if count > 1 || (count == 0 && !is_settled) {
                return Some((Invariant::QueuedInOneQueue, format!("queued run {run} is in {count} queues")));
            }
        }
        let lost = places.keys().find(|run| !self.queued.contains(**run));
        lost.map(|run| (Invariant::QueuedInOneQueue, format!("run {run} is in a queue and does not wait")))
    }

    /// No run that waits is overtaken: neither in its queue, nor by a start.
    pub(super) fn judge_order(&self, batch: &Batch) -> Verdict {
        let started = self.started(batch);
        for (group, place, run) in batch.left.iter().filter(|(_, _, run)| started.contains(run)) {
            let queue = self.queues.get(group).into_iter().flatten();
            // In which order fair groups go is judged by what they are charged.
            let before = queue.take_while(|(other, _)| *other < place && !is_in_lane(other));
            let mut overtaken =
                before.filter(|(other, _)| !batch.entered.contains(&(group.clone(), (*other).clone())));
            if let Some((_, other)) = overtaken.next() {
                return Some((Invariant::LineIsKept, format!("run {run} overtook {other} in {group}")));
            }
        }
        for run in batch.created.intersection(&started) {
            for group in self.groups_of(run) {
                let queue = self.queues.get(&group).into_iter().flatten();
                let mut waiting =
                    queue.filter(|(place, _)| !batch.entered.contains(&(group.clone(), (*place).clone())));
                if let Some((_, other)) = waiting.next() {
                    return Some((
                        Invariant::LineIsKept,
                        format!("the new run {run} overtook {other} in {group}"),
                    ));
                }
            }
        }
        None
    }

    /// The first of each queue waits for something: for a slot, a person, or a timer.
    pub(super) fn judge_waits(&self, cap: usize) -> Verdict {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        for (group, queue) in waiting {
            let (live, most, is_paused) = self.state(group, cap);
            let has_room = most.is_none_or(|most| live < most) && !is_paused;
            if has_room && !self.has_timer(group) {
                let first = queue.values().next();
                return Some((
                    Invariant::NoStartableWaits,
                    format!("run {first:?} waits in {group}, which has room ({live} of {most:?})"),
                ));
            }
        }
        None
    }
}
