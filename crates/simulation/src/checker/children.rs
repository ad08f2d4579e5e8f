//! Children: started once for each attempt of a step that waits for them, reported to it, cancelled with it.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::StoreError;
use interlock_backend::children::{ChildSettled, ChildSettlement};
use interlock_backend::local::Table;
use interlock_backend::verbs::SettleChildStart;
use interlock_model::child::ChildEffects;
use interlock_model::limit::place::RunSlots;
use interlock_model::run::RunStatus;
use interlock_model::{RunId, TenantId};
use serde::Deserialize;

use super::{Checker, Write, runs};
use crate::Invariant;

/// What the rows of a tenant say of children. Runs are named as in the keys.
#[derive(Default)]
pub(super) struct ChildRows {
    /// By child: the run whose step waits for it.
    awaited: BTreeMap<String, String>,
    /// Children that are to be started.
    starts: BTreeSet<String>,
    /// By live child: the run above it.
    live: BTreeMap<String, String>,
    ended: BTreeSet<String>,
    /// By run: where its inbox has a request to cancel.
    cancels: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Status {
    status: RunStatus,
}

fn last_part(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn middle_part(key: &str) -> &str {
    key.split('/').nth(1).unwrap_or(key)
}

impl ChildRows {
    fn take(&mut self, (table, key, value): &Write) {
        let run = last_part(key).to_owned();
        match (table, value) {
            (Table::Children, Some(_)) => drop(self.awaited.insert(run, middle_part(key).to_owned())),
            (Table::Children, None) => drop(self.awaited.remove(&run)),
            (Table::ChildStarts, Some(_)) => drop(self.starts.insert(run)),
            (Table::ChildStarts, None) => drop(self.starts.remove(&run)),
            (Table::RunSlots, Some(value)) => {
                let slots = serde_json::from_str::<RunSlots>(value).ok();
                if let Some(parent) = slots.and_then(|slots| slots.parent) {
                    self.live.insert(run, parent.to_string());
                }
            }
            (Table::Heads, value) => {
                let head = value.as_deref().and_then(|head| serde_json::from_str::<Status>(head).ok());
                if head.is_none_or(|head| head.status.is_final()) {
                    self.live.remove(&run);
                    self.ended.insert(run);
                }
            }
            (Table::Inbox, value) => {
                let cancels = self.cancels.entry(middle_part(key).to_owned()).or_default();
                if value.as_ref().is_some_and(|event| event.starts_with(r#"{"cancel""#)) {
                    cancels.insert(key.clone());
                } else {
                    cancels.remove(key);
                }
            }
            _ => {}
        }
    }

    fn judge(&self, writes: &[Write], before: &BTreeMap<String, String>) -> Option<(Invariant, String)> {
        for child in self.live.keys().filter(|child| !self.awaited.contains_key(*child)) {
            if self.cancels.get(child).is_none_or(BTreeSet::is_empty) {
                let what = format!("child {child} is live, no step waits for it, and it is not cancelled");
                return Some((Invariant::ChildIsWanted, what));
            }
        }
        for (child, parent) in &self.awaited {
            if self.ended.contains(child) || !self.live.contains_key(child) && !self.starts.contains(child) {
                let what = format!("run {parent} waits for child {child}, which has ended, or never starts");
                return Some((Invariant::ChildEndArrives, what));
            }
        }
        // Who is not waited for any more has reported, unless the run itself gave it up: then it has not ended.
        for (child, parent) in before.iter().filter(|(child, _)| !self.awaited.contains_key(*child)) {
            let posts = |(table, key, value): &Write| {
                *table == Table::Inbox && value.is_some() && middle_part(key) == parent
            };
            let has_left = self.ended.contains(child) && !self.ended.contains(parent);
            if has_left && !writes.iter().any(posts) {
                let what = format!("child {child} has ended, and run {parent} does not know");
                return Some((Invariant::ChildEndArrives, what));
            }
        }
        None
    }
}

impl Checker {
    /// Judges what one decision wrote about the children of a tenant.
    pub(super) fn judge_children(&mut self, tenant: &str, writes: &[Write]) {
        let of_tenant = |key: &str| key.split('/').next() == Some(tenant);
        let rows = self.tables.children(tenant);
        let before = rows.awaited.clone();
        writes.iter().filter(|(_, key, _)| of_tenant(key)).for_each(|write| rows.take(write));
        if let Some((invariant, what)) = rows.judge(writes, &before) {
            self.violate(invariant, format!("tenant {tenant}: {what}"));
        }
    }

    /// What a turn says about children comes true.
    pub(super) fn children_changed(&mut self, (tenant, run): (&TenantId, RunId), children: &ChildEffects) {
        for child in &children.started {
            let before = self.wanted.insert(child.run, child.parent.clone());
            let is_new = before.is_none() && !self.runs.contains_key(&child.run);
            self.require(is_new && child.parent.run == run, Invariant::OneRunPerStart, || {
                format!("run {run} of tenant {tenant} asked for child {} twice", child.run)
            });
            let step = &child.parent.step;
            let of_step = self.wanted.values().filter(|parent| parent.run == run && parent.step == *step);
            let count = of_step.count();
            self.require(count == 1, Invariant::OneRunPerStart, || {
                format!("step {step} of run {run} of tenant {tenant} waits for {count} children")
            });
        }
        for child in &children.cancelled {
            self.counts.children_given_up += 1;
            self.wanted.remove(child);
        }
        if children.report.is_some() {
            self.wanted.remove(&run);
        }
    }

    pub(crate) fn child_settled(
        &mut self,
        asked: &SettleChildStart,
        answer: &Result<ChildSettled, StoreError>,
    ) {
        let (id, run) = (&asked.tenant, asked.child.run);
        let is_wanted = self.wanted.get(&run).is_some_and(|parent| *parent == asked.child.parent);
        match answer {
            Ok(ChildSettled::Started | ChildSettled::Queued(_)) => {
                self.counts.children_started += 1;
                self.counts.children_queued += u64::from(matches!(answer, Ok(ChildSettled::Queued(_))));
                self.require(is_wanted, Invariant::ChildIsWanted, || {
                    format!("child {run} of tenant {id} was started, and no step waits for it")
                });
                let tenant = self.tenants.entry(id.clone()).or_default();
                tenant.children.insert(run);
                let current = tenant.versions.get(&asked.child.workflow).copied();
                let ChildSettlement::Start { workflow_version, .. } = asked.settlement else { return };
                self.require(current == Some(workflow_version), Invariant::AnswersAreTrue, || {
                    format!("child {run} of tenant {id} started with version {workflow_version} and not {current:?}")
                });
                let before = self.runs.insert(run, runs::Run::admitted(id.clone()));
                self.require(before.is_none(), Invariant::OneRunPerStart, || {
                    format!("child {run} of tenant {id} was started a second time")
                });
            }
            Ok(ChildSettled::Refused) => {
                self.counts.children_refused += 1;
                self.wanted.remove(&run);
            }
            Ok(ChildSettled::NotWanted) => {
                let is_waiting = is_wanted && !self.runs.contains_key(&run);
                self.require(!is_waiting, Invariant::NoNeedlessRefusal, || {
                    format!("child {run} of tenant {id} was not started, and its step waits for it")
                });
            }
            Ok(ChildSettled::LimitReached(_) | ChildSettled::QueueFull(_) | ChildSettled::Outdated)
            | Err(_) => {}
        }
    }
}
