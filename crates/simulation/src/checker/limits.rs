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
use super::debounce::{DebounceBatch, DebouncedRuns};
use super::rows::Write;
use super::shares::Shares;
mod judges;

use crate::Invariant;

/// The name of the tenant's own slots among the groups.
const TENANT_RUNS: &str = "tenant-runs/";

/// Starts of a group that are remembered to check its rate.
const STARTS_REMEMBERED: usize = 50;

/// What the rows of a tenant say of its limits. Groups are named as in the keys: `limit/group`.
#[derive(Default)]
pub(super) struct LimitRows {
    pub(super) limits: BTreeMap<String, StoredLimit>,
    pub(super) debounced: DebouncedRuns,
    slots: BTreeMap<String, BTreeSet<String>>,
    /// By group: the rest of the key, which sorts, and the run.
    queues: BTreeMap<String, BTreeMap<String, String>>,
    groups: BTreeMap<String, Group>,
    runs: BTreeMap<String, RunSlots>,
    pub(super) timers: BTreeSet<String>,
    pub(super) tenant: Tenant,
    /// Runs that hold a slot of the tenant.
    active: BTreeSet<String>,
    /// Live runs that wait, by their heads.
    pub(super) queued: BTreeSet<String>,
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
    /// Runs that got one.
    given_to: BTreeSet<String>,
    /// Places that were left: group, rest of the key, run.
    left: Vec<(String, String, String)>,
    /// Places that were taken now.
    entered: BTreeSet<(String, String)>,
    debounce: DebounceBatch,
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

pub(super) fn run_of(key: &str) -> String {
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
                } else if slots.insert(run.clone()) {
                    batch.given.insert(group);
                    batch.given_to.insert(run);
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

    fn parent_of(&self, run: &str) -> Option<String> {
        self.runs.get(run)?.parent.map(|parent| parent.to_string())
    }

    /// Runs that have begun to hold slots, children included.
    fn started(&self, batch: &Batch) -> BTreeSet<String> {
        let children = batch.given_to.iter().filter(|run| self.parent_of(run).is_some());
        batch.started.iter().chain(children).cloned().collect()
    }

    /// A group of a child in which a run above it counts, too.
    fn counted_above(&self, run: &str) -> Option<String> {
        let own = &self.runs.get(run)?.claims;
        let mut above = self.parent_of(run);
        while let Some(parent) = above {
            let slots = self.runs.get(&parent)?;
            if let Some(claim) = own.iter().find(|claim| slots.claims.contains(claim)) {
                return Some(format!("{} of {parent}", claim.limit));
            }
            above = self.parent_of(&parent);
        }
        None
    }

    /// The groups that a run counts in, its tenant's included.
    fn groups_of(&self, run: &str) -> Vec<String> {
        let claims = self.runs.get(run).map(|slots| slots.claims.as_slice()).unwrap_or_default();
        let named = claims.iter().map(|claim| format!("{}/{}", claim.limit, claim.group.escaped()));
        // A child runs in the slot of its root.
        let own = self.parent_of(run).is_none().then(|| TENANT_RUNS.to_owned());
        named.chain(own).collect()
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
            rows.debounced.take(&mut batch.debounce, write);
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
            .or_else(|| rows.judge_debounce(&batch.debounce, self.clock.now()))
            .or_else(|| rows.judge_order(&batch))
            .or_else(|| rows.judge_waits(cap))
            .or(unfair);
        self.counts.runs_granted +=
            batch.left.iter().filter(|(_, _, run)| batch.started.contains(run)).count() as u64;
        self.counts.quiet_periods_ended += batch.debounce.ended(&rows.debounced);
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
