//! Named limits, judged row by row: who has slots, who waits, and whether anyone waits who could start.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::limits::StoredLimit;
use interlock_backend::local::Table;
use interlock_model::limit::document::{LimitDocument, RateDocument};
use interlock_model::limit::fair::LANE;
use interlock_model::limit::group::Group;
use interlock_model::limit::place::RunSlots;
use interlock_model::tenant::Tenant;
use interlock_model::{Clock as _, Timestamp};
use serde::de::DeserializeOwned;

use super::Checker;
use super::rows::Write;
use super::shares::Shares;
use crate::Invariant;

/// The name of the tenant's own slots among the groups.
const TENANT_RUNS: &str = "tenant-runs/";

/// Starts of a group that are remembered to check its rate.
const STARTS_REMEMBERED: usize = 50;

/// What the rows of a tenant say of its limits. Groups are named as in the keys: `limit/group`.
#[derive(Default)]
pub(super) struct LimitRows {
    limits: BTreeMap<String, StoredLimit>,
    slots: BTreeMap<String, BTreeSet<String>>,
    /// By group: the rest of the key, which sorts, and the run.
    queues: BTreeMap<String, BTreeMap<String, String>>,
    groups: BTreeMap<String, Group>,
    runs: BTreeMap<String, RunSlots>,
    timers: BTreeSet<String>,
    tenant: Tenant,
    /// Runs that hold a slot of the tenant.
    active: BTreeSet<String>,
    /// Live runs that wait, by their heads.
    queued: BTreeSet<String>,
    /// Runs with something to take into account, or that an instance holds.
    awaited: BTreeSet<(Table, String)>,
    /// When runs of a group got their slots, under the present rate.
    starts: BTreeMap<String, Vec<Timestamp>>,
    shares: Shares,
}

/// What one write changed, as far as it must be judged together.
#[derive(Default)]
struct Batch {
    created: BTreeSet<String>,
    /// Runs that got a slot of their tenant.
    started: BTreeSet<String>,
    /// Groups of named limits in which a slot was given.
    given: BTreeSet<String>,
    /// Places that were left: group, rest of the key, run.
    left: Vec<(String, String, String)>,
    /// Places that were taken now.
    entered: BTreeSet<(String, String)>,
}

fn read<T: DeserializeOwned>(value: &str) -> Option<T> {
    serde_json::from_str(value).ok()
}

/// `tenant/limit/group/rest` as the group and the rest.
fn split_group(key: &str) -> Option<(String, String)> {
    let mut parts = key.splitn(4, '/').skip(1);
    let (limit, group) = (parts.next()?, parts.next()?);
    Some((format!("{limit}/{group}"), parts.next().unwrap_or_default().to_owned()))
}

fn run_of(key: &str) -> String {
    key.rsplit('/').next().unwrap_or(key).to_owned()
}

impl LimitRows {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other tables say nothing of limits")]
    fn take(&mut self, batch: &mut Batch, (table, key, value): &Write) {
        match table {
            Table::Tenants => self.tenant = value.as_deref().and_then(read).unwrap_or_default(),
            Table::Starts => drop(value.as_ref().map(|_| batch.created.insert(run_of(key)))),
            Table::Active => {
                if value.is_none() {
                    self.active.remove(&run_of(key));
                } else if self.active.insert(run_of(key)) {
                    batch.started.insert(run_of(key));
                }
            }
            Table::Heads => {
                let status: Option<serde_json::Value> = value.as_deref().and_then(read);
                self.queued.remove(&run_of(key));
                if status.is_some_and(|head| head["status"] == "queued") {
                    self.queued.insert(run_of(key));
                }
            }
            Table::Ready | Table::RunLeases => {
                let mark = (*table, run_of(key));
                if value.is_some() {
                    self.awaited.insert(mark)
                } else {
                    self.awaited.remove(&mark)
                };
            }
            Table::Limits => self.limit_written(&run_of(key), value.as_deref()),
            Table::LimitGroups => {
                let Some((group, _)) = split_group(key) else { return };
                match value.as_deref().and_then(read) {
                    Some(row) => drop(self.groups.insert(group, row)),
                    None => drop(self.groups.remove(&group)),
                }
            }
            Table::LimitSlots => {
                let Some((group, run)) = split_group(key) else { return };
                let slots = self.slots.entry(group.clone()).or_default();
                if value.is_none() {
                    slots.remove(&run);
                } else if slots.insert(run) {
                    batch.given.insert(group);
                }
            }
            Table::RunSlots => match value.as_deref().and_then(read) {
                Some(slots) => drop(self.runs.insert(run_of(key), slots)),
                None => drop(self.runs.remove(&run_of(key))),
            },
            Table::RunQueue => {
                let Some((group, place)) = split_group(key) else { return };
                let queue = self.queues.entry(group.clone()).or_default();
                if value.is_some() {
                    if queue.insert(place.clone(), run_of(key)).is_none() {
                        batch.entered.insert((group, place));
                    }
                } else if let Some(run) = queue.remove(&place) {
                    batch.left.push((group, place, run));
                }
            }
            Table::LimitTimers => {
                if value.is_some() {
                    self.timers.insert(key.clone())
                } else {
                    self.timers.remove(key)
                };
            }
            _ => {}
        }
    }

    fn limit_written(&mut self, name: &str, value: Option<&str>) {
        let limit: Option<StoredLimit> = value.and_then(read);
        let before = self.limits.remove(name).map(|limit| limit.document.rate);
        if before != limit.as_ref().map(|limit| limit.document.rate) {
            self.starts.retain(|group, _| group.split('/').next() != Some(name));
        }
        self.limits.extend(limit.map(|limit| (name.to_owned(), limit)));
    }

    /// Slots, most slots, and whether it is paused.
    fn state(&self, group: &str, cap: usize) -> (usize, Option<usize>, bool) {
        if group == TENANT_RUNS {
            return (self.active.len(), Some(cap), self.tenant.paused.is_some());
        }
        let live = self.slots.get(group).map_or(0, BTreeSet::len);
        let limit = group.split('/').next().and_then(|name| self.limits.get(name));
        let most = limit.and_then(|limit| limit.document.max_runs).map(|most| most as usize);
        (live, most, limit.is_some_and(|limit| limit.paused.is_some()))
    }

    fn rate(&self, group: &str) -> Option<RateDocument> {
        let LimitDocument { rate, .. } = &self.limits.get(group.split('/').next()?)?.document;
        *rate
    }

    fn has_timer(&self, group: &str) -> bool {
        let name = group.split('/').next().unwrap_or_default();
        self.timers.iter().any(|key| {
            let mut parts = key.splitn(3, '/');
            let what = parts.nth(2).unwrap_or_default();
            what == group || what.starts_with(&format!("{name}/*"))
        })
    }

    /// The groups that a run counts in, its tenant's included.
    fn groups_of(&self, run: &str) -> Vec<String> {
        let claims = self.runs.get(run).map(|slots| slots.claims.as_slice()).unwrap_or_default();
        let named = claims.iter().map(|claim| format!("{}/{}", claim.limit, claim.group.escaped()));
        named.chain([TENANT_RUNS.to_owned()]).collect()
    }
}

impl Checker {
    /// Judges what one decision wrote about the slots and queues of a tenant.
    pub(super) fn judge_limits(&mut self, tenant: &str, writes: &[Write]) {
        let mut batch = Batch::default();
        let mut rows = std::mem::take(self.tables.limits(tenant));
        let of_tenant = |key: &str| key.split('/').next() == Some(tenant);
        let writes: Vec<&Write> = writes.iter().filter(|(_, key, _)| of_tenant(key)).collect();
        for write in &writes {
            rows.take(&mut batch, write);
        }
        let unfair = rows.shares.judge(&writes, &rows.limits, (&batch.started, self.clock.now()));
        let system = self.system;
        let cap = rows.tenant.limits.under(system).runs_max as usize;
        let verdict = rows
            .judge_slots(&batch, cap)
            .or_else(|| rows.judge_rates(&batch, self.clock.now()))
            .or_else(|| rows.judge_counts())
            .or_else(|| rows.judge_runs())
            .or_else(|| rows.judge_order(&batch))
            .or_else(|| rows.judge_waits(cap))
            .or(unfair);
        self.counts.runs_granted +=
            batch.left.iter().filter(|(_, _, run)| batch.started.contains(run)).count() as u64;
        *self.tables.limits(tenant) = rows;
        if let Some((invariant, what)) = verdict {
            self.violate(invariant, format!("tenant {tenant}: {what}"));
        }
    }
}

/// Whether a place is in a group of a fair queue.
fn is_in_lane(place: &str) -> bool {
    place.split('/').next().and_then(|score| score.parse().ok()).is_some_and(|score: u64| score >= LANE)
}

type Verdict = Option<(Invariant, String)>;

impl LimitRows {
    /// No slot is given beyond a limit, or while it is paused. The cap of a start is judged with its answer.
    fn judge_slots(&self, batch: &Batch, cap: usize) -> Verdict {
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

    fn judge_rates(&mut self, batch: &Batch, now: Timestamp) -> Verdict {
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
    fn judge_counts(&self) -> Verdict {
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
    fn judge_runs(&self) -> Verdict {
        for (run, slots) in &self.runs {
            let held = slots.claims.iter().filter(|claim| {
                let group = format!("{}/{}", claim.limit, claim.group.escaped());
                self.slots.get(&group).is_some_and(|slots| slots.contains(run))
            });
            let expected = if self.active.contains(run) { slots.claims.len() } else { 0 };
            if held.count() != expected {
                return Some((
                    Invariant::AllSlotsOrNone,
                    format!("run {run} does not hold {expected} slots"),
                ));
            }
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
    fn judge_order(&self, batch: &Batch) -> Verdict {
        for (group, place, run) in batch.left.iter().filter(|(_, _, run)| batch.started.contains(run)) {
            let queue = self.queues.get(group).into_iter().flatten();
            // In which order fair groups go is judged by what they are charged.
            let before = queue.take_while(|(other, _)| *other < place && !is_in_lane(other));
            let mut overtaken =
                before.filter(|(other, _)| !batch.entered.contains(&(group.clone(), (*other).clone())));
            if let Some((_, other)) = overtaken.next() {
                return Some((Invariant::LineIsKept, format!("run {run} overtook {other} in {group}")));
            }
        }
        for run in batch.created.intersection(&batch.started) {
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
    fn judge_waits(&self, cap: usize) -> Verdict {
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
