//! Fair queues, judged row by row: whose turn it was, and what groups are charged.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::limits::StoredLimit;
use interlock_backend::local::Table;
use interlock_model::Timestamp;
use interlock_model::limit::GroupKey;
use interlock_model::limit::fair::{FairCharge, FairGroup, RUN_MS_UNKNOWN, cost};
use interlock_model::limit::place::RunSlots;
use interlock_model::time::millis;
use serde::Deserialize;

use super::rows::Write;
use crate::Invariant;

/// A group of a fair queue: `limit/group` as in the keys, and its name there.
type FairName = (String, String);

type Verdict = Option<(Invariant, String)>;

/// What the rows of a tenant say of its fair queues.
#[derive(Default)]
pub(super) struct Shares {
    groups: BTreeMap<FairName, FairGroup>,
    /// By group of the limit and run.
    holders: BTreeMap<(String, String), Holder>,
    runs: BTreeMap<String, RunSlots>,
    /// How long runs of a workflow take.
    means: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Holder {
    since: Timestamp,
    #[serde(default)]
    charge: Option<FairCharge>,
}

#[derive(Deserialize)]
struct Entry {
    workflow: String,
}

/// What one write changed.
#[derive(Default)]
struct Changed {
    before: BTreeMap<FairName, FairGroup>,
    /// What was charged for runs that got a slot.
    given: BTreeMap<FairName, u64>,
    /// What runs that have ended were charged, and what they have used.
    freed: BTreeMap<FairName, Vec<(u64, u64)>>,
    /// Groups that runs have entered, with the workflow of the last one.
    entered: BTreeMap<FairName, String>,
    /// Fair groups of runs that left their places there.
    left: BTreeMap<String, FairName>,
}

fn read<T: for<'de> Deserialize<'de>>(value: Option<&String>) -> Option<T> {
    serde_json::from_str(value?).ok()
}

/// `tenant/limit/group/part/…` as the group and the part.
fn split(key: &str) -> Option<(String, String)> {
    let mut parts = key.split('/').skip(1);
    let (limit, group) = (parts.next()?, parts.next()?);
    Some((format!("{limit}/{group}"), parts.next()?.to_owned()))
}

fn last(key: &str) -> String {
    key.rsplit('/').next().unwrap_or(key).to_owned()
}

fn weight(limits: &BTreeMap<String, StoredLimit>, (group, fair): &FairName) -> u32 {
    let queue = group.split('/').next().and_then(|name| limits.get(name)).map(|limit| &limit.document.queue);
    let name = GroupKey::unescape(fair).unwrap_or_default();
    let weights = queue.and_then(Option::as_ref).map(|queue| &queue.weights);
    weights.and_then(|weights| weights.get(name.as_str())).copied().unwrap_or(1)
}

impl Shares {
    /// Takes what one decision wrote, and judges it. `started`: runs that got a slot of their tenant by it.
    pub(super) fn judge(
        &mut self,
        writes: &[&Write],
        limits: &BTreeMap<String, StoredLimit>,
        (started, now): (&BTreeSet<String>, Timestamp),
    ) -> Verdict {
        let mut changed = Changed { before: self.groups.clone(), ..Changed::default() };
        let mut means = self.means.clone();
        for (table, key, value) in writes {
            self.take(&mut changed, (*table, key, value.as_ref()), (limits, now));
            if let (Table::RunMeans, Some(mean)) = (*table, read(value.as_ref())) {
                means.insert(last(key), mean);
            }
        }
        for (_, key, value) in writes.iter().filter(|(table, ..)| *table == Table::RunSlots) {
            match read(value.as_ref()) {
                Some(slots) => drop(self.runs.insert(last(key), slots)),
                None => drop(self.runs.remove(&last(key))),
            }
        }
        let verdict = self
            .judge_charges(&changed)
            .or_else(|| self.judge_turns(&changed, started))
            .or_else(|| self.judge_credit(&changed, limits));
        self.means = means;
        verdict
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other tables say nothing of fair queues")]
    fn take(
        &mut self,
        changed: &mut Changed,
        (table, key, value): (Table, &str, Option<&String>),
        (limits, now): (&BTreeMap<String, StoredLimit>, Timestamp),
    ) {
        let Some((group, part)) = split(key) else { return };
        match table {
            Table::FairGroups => match read(value) {
                Some(known) => drop(self.groups.insert((group, part), known)),
                None => drop(self.groups.remove(&(group, part))),
            },
            Table::FairQueue => match read::<Entry>(value) {
                Some(entry) => drop(changed.entered.insert((group, part), entry.workflow)),
                None => drop(changed.left.insert(last(key), (group, part))),
            },
            Table::LimitSlots => {
                let before = self.holders.remove(&(group.clone(), part.clone()));
                let after: Option<Holder> = read(value);
                let charge_of = |holder: &Holder| holder.charge.clone();
                match (before, after) {
                    (None, Some(after)) => {
                        if let Some(FairCharge { group: fair, amount }) = charge_of(&after) {
                            *changed.given.entry((group.clone(), fair.escaped())).or_default() += amount;
                        }
                        self.holders.insert((group, part), after);
                    }
                    (Some(before), None) => {
                        if let Some(FairCharge { group: fair, amount }) = charge_of(&before) {
                            let name = (group, fair.escaped());
                            let approvals =
                                self.runs.get(&part).map(|slots| slots.approvals).unwrap_or_default();
                            let held = millis(now.since(before.since)).saturating_sub(approvals.until(now));
                            let used = cost(held, weight(limits, &name));
                            changed.freed.entry(name).or_default().push((amount, used));
                        }
                    }
                    (_, Some(after)) => drop(self.holders.insert((group, part), after)),
                    (None, None) => {}
                }
            }
            _ => {}
        }
    }

    /// The groups of the queue that have waited all the time, and that no run has entered.
    fn waited<'a>(&'a self, changed: &'a Changed) -> impl Iterator<Item = (&'a FairName, u64, u64)> {
        self.groups.iter().filter_map(|(name, after)| {
            let before = changed.before.get(name).filter(|before| before.queued > 0 && after.queued > 0)?;
            (!changed.entered.contains_key(name)).then_some((name, before.charge, after.charge))
        })
    }

    /// A group is charged for the runs that it gets, and what they have used in the end.
    fn judge_charges(&self, changed: &Changed) -> Verdict {
        for (name, before, after) in self.waited(changed) {
            let freed = changed.freed.get(name).into_iter().flatten();
            let corrected =
                freed.fold(before, |charge, (charged, used)| charge.saturating_sub(*charged) + used);
            let expected = corrected + changed.given.get(name).copied().unwrap_or_default();
            if after != expected {
                let what =
                    format!("fair group {name:?} is charged {after}, and its runs have used {expected}");
                return Some((Invariant::SharesAreFair, what));
            }
        }
        None
    }

    /// A slot goes to the group that has been charged the least.
    fn judge_turns(&self, changed: &Changed, started: &BTreeSet<String>) -> Verdict {
        for (run, name) in changed.left.iter().filter(|(run, _)| started.contains(*run)) {
            let given = changed.given.get(name).copied().unwrap_or_default();
            let Some(own) = self.groups.get(name).filter(|_| !changed.entered.contains_key(name)) else {
                continue;
            };
            let at = own.charge.saturating_sub(given);
            let mut others = self.waited(changed).filter(|(other, ..)| other.0 == name.0 && *other != name);
            if let Some((other, _, charge)) = others.find(|(.., charge)| *charge < at) {
                let what = format!(
                    "run {run} of {name:?}, charged {at}, got a slot before {other:?}, charged {charge}"
                );
                return Some((Invariant::SharesAreFair, what));
            }
        }
        None
    }

    /// A group that was idle brings no more than one turn with it.
    fn judge_credit(&self, changed: &Changed, limits: &BTreeMap<String, StoredLimit>) -> Verdict {
        let mut entered = changed.entered.iter();
        let (Some((name, workflow)), None) = (entered.next(), entered.next()) else { return None };
        let was_waiting = changed.before.get(name).is_some_and(|before| before.queued > 0);
        let after = self.groups.get(name).filter(|_| !was_waiting)?;
        if !(changed.given.is_empty() && changed.freed.is_empty() && changed.left.is_empty()) {
            return None;
        }
        let others = self.waited(changed).filter(|(other, ..)| other.0 == name.0);
        let least = others.map(|(.., charge)| charge).min()?;
        let run_ms = self.means.get(workflow).copied().unwrap_or(RUN_MS_UNKNOWN);
        let turn = cost(run_ms, weight(limits, name));
        (after.charge.saturating_add(turn) < least).then(|| {
            let what =
                format!("fair group {name:?} comes back with {}, and the others have {least}", after.charge);
            (Invariant::SharesAreFair, what)
        })
    }
}
