//! Rows as they are written: what the tables say, kept beside what the calls say.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::Verb as _;
use interlock_backend::local::Table;
use interlock_backend::verbs::DeleteRun;
use interlock_model::history::{Event, EventKind};
use interlock_model::limit::place::RunSlots;
use interlock_model::run::RunStatus;
use interlock_model::step::StepStatus;
use interlock_model::tenant::Tenant;
use interlock_model::{Clock as _, JobId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Checker;
use super::children::ChildRows;
use super::events::EventRows;
use super::keyed_events::KeyedRows;
use super::limits::LimitRows;
use crate::Invariant;

/// One written row: table, key, and the value, or none if the row was deleted.
pub(crate) type Write = (Table, String, Option<String>);

#[derive(Default)]
pub(super) struct Rows {
    /// Rows that the last write of anybody changed.
    pub last_batch: usize,
    tenants: BTreeMap<String, TenantRows>,
    limits: BTreeMap<String, LimitRows>,
    children: BTreeMap<String, ChildRows>,
    events: EventRows,
    keyed_events: BTreeMap<String, KeyedRows>,
    /// By run: where its timeline ends.
    timelines: BTreeMap<String, u64>,
    /// By event: the job whose progress it is.
    progress: BTreeMap<String, JobId>,
    /// By step: how it was settled.
    settled: BTreeMap<String, String>,
    /// By run: how it ended.
    ended: BTreeMap<String, String>,
}

impl Rows {
    pub(super) fn limits(&mut self, tenant: &str) -> &mut LimitRows {
        self.limits.entry(tenant.to_owned()).or_default()
    }

    pub(super) fn keyed_events(&mut self, tenant: &str) -> &mut KeyedRows {
        self.keyed_events.entry(tenant.to_owned()).or_default()
    }

    pub(super) fn events(&mut self) -> &mut EventRows {
        &mut self.events
    }

    pub(super) fn children(&mut self, tenant: &str) -> &mut ChildRows {
        self.children.entry(tenant.to_owned()).or_default()
    }
}

#[derive(Default)]
struct TenantRows {
    counter: u32,
    fence: u64,
    starts: BTreeSet<String>,
    slots: BTreeSet<String>,
    /// Runs that have not ended, and those of them that are queued by their heads.
    live: BTreeSet<String>,
    queued: BTreeSet<String>,
    /// Those that run in the slot of their root.
    children: BTreeSet<String>,
    /// Keys that are reserved, and have not started anything.
    reserved: BTreeSet<String>,
    /// When keys that have started a run may be used afresh, where that is not never.
    ending: BTreeMap<String, Timestamp>,
}

/// The part of a step, or of a run's head, that must never change once it is settled.
#[derive(Deserialize)]
struct Outcome<'a, S> {
    status: S,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completed_at: Option<&'a RawValue>,
}

impl<S: std::fmt::Debug> Outcome<'_, S> {
    fn text(&self) -> String {
        let Self { status, output, error, completed_at } = self;
        let text = |value: Option<&RawValue>| value.map_or("-", RawValue::get).to_owned();
        format!("{status:?} {} {} {}", text(*output), text(*error), text(*completed_at))
    }
}

#[derive(Deserialize)]
struct KeyRow {
    run: String,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    reservation: Option<serde::de::IgnoredAny>,
}

impl Checker {
    /// Takes in what one decision wrote, and checks everything that must hold between the tables now.
    pub(crate) fn rows_written(&mut self, action: &'static str, writes: &[Write]) {
        self.tables.last_batch = writes.len();
        let mut tenants: BTreeSet<&str> = BTreeSet::new();
        for write in writes {
            self.log.mix(&(write.0.name(), &write.1, &write.2));
            tenants.insert(first_part(&write.1));
            self.row_written(action, write);
        }
        for (table, key, value) in writes {
            if let (Table::IdempotencyKeys, Some(value)) = (table, value) {
                self.check_key(key, value);
            }
        }
        self.take_system_limits(writes);
        for tenant in tenants {
            self.check_slots(tenant);
            self.judge_limits(tenant, writes);
            self.judge_system_limits(tenant);
            self.judge_children(tenant, writes);
            self.judge_keyed_events(tenant, writes);
        }
        if writes.iter().any(|(table, ..)| matches!(table, Table::BudgetPermits | Table::BudgetLedgers)) {
            self.check_ledgers();
        }
        self.judge_events(writes);
        self.check_jobs_and_permits(writes);
        self.check_budget_queues(writes);
        self.check_timeouts(writes);
    }

    fn row_written(&mut self, action: &str, (table, key, value): &Write) {
        let rows = self.tables.tenants.entry(first_part(key).to_owned()).or_default();
        match (table, value) {
            (Table::Tenants, Some(value)) => self.tenant_written(key, value),
            (Table::Starts, value) => keep(&mut rows.starts, key, value.is_some()),
            (Table::Active, value) => {
                keep(&mut rows.slots, key, value.is_some());
                if value.is_some() {
                    self.slot_given(key);
                }
            }
            (Table::RunSlots, value) => {
                let slots = value.as_deref().and_then(|row| serde_json::from_str::<RunSlots>(row).ok());
                keep(&mut rows.children, key, slots.is_some_and(|slots| slots.parent.is_some()));
            }
            (Table::Heads, Some(value)) => self.head_written(key, value),
            (Table::Heads, None) => {
                rows.live.remove(key);
                rows.queued.remove(key);
                self.tables.ended.remove(key);
            }
            (Table::Steps, Some(value)) => self.step_written(key, value),
            (Table::Steps, None) => drop(self.tables.settled.remove(key)),
            (Table::Timeline, Some(value)) => self.event_written(key, value),
            (Table::Timeline, None) => {
                self.tables.timelines.remove(before_last_part(key));
                self.tables.progress.remove(key);
            }
            (Table::BudgetPermits | Table::BudgetLedgers, value) => {
                self.budget_row_written(*table, key, value.as_deref());
            }
            (Table::BudgetQueue | Table::Held, value) => {
                self.queue_row_written(*table, key, value.as_deref());
            }
            _ => {}
        }
        if value.is_none() && matches!(table, Table::Starts | Table::Heads | Table::Timeline) {
            self.require(action == DeleteRun::ACTION, Invariant::NothingBreaks, || {
                format!("{} {key} was removed to {action}", table.name())
            });
        }
        if value.is_none() && *table == Table::IdempotencyKeys {
            self.key_removed(action, key);
        }
    }

    fn tenant_written(&mut self, key: &str, value: &str) {
        let Ok(tenant) = serde_json::from_str::<Tenant>(value) else {
            return self.violate(Invariant::NothingBreaks, format!("tenant {key} cannot be read: {value}"));
        };
        let rows = self.tables.tenants.entry(key.to_owned()).or_default();
        rows.counter = tenant.runs_active;
        let (fence, last) = (tenant.fence.number(), rows.fence);
        rows.fence = fence;
        self.require(last <= fence, Invariant::FencesGrow, || {
            format!("the fence of tenant {key} fell from {last} to {fence}")
        });
    }

    fn head_written(&mut self, key: &str, value: &str) {
        let Ok(head) = serde_json::from_str::<Outcome<'_, RunStatus>>(value) else {
            return self.violate(Invariant::NothingBreaks, format!("head {key} cannot be read: {value}"));
        };
        let rows = self.tables.tenants.entry(first_part(key).to_owned()).or_default();
        let is_final = head.status.is_final();
        keep(&mut rows.live, key, !is_final);
        keep(&mut rows.queued, key, head.status == RunStatus::Queued);
        let outcome = head.text();
        let before = self.tables.ended.get(key).cloned();
        self.require(before.as_ref().is_none_or(|before| *before == outcome), Invariant::FinalStays, || {
            format!("run {key} had ended and was changed to {outcome}")
        });
        if is_final {
            self.tables.ended.insert(key.to_owned(), outcome);
        }
    }

    fn step_written(&mut self, key: &str, value: &str) {
        let Ok(step) = serde_json::from_str::<Outcome<'_, StepStatus>>(value) else {
            return self.violate(Invariant::NothingBreaks, format!("step {key} cannot be read: {value}"));
        };
        let is_settled = step.status.is_settled();
        let before = self.tables.settled.get(key);
        if before.is_none() && !is_settled {
            return;
        }
        let outcome = step.text();
        let is_same = before.is_none_or(|before| *before == outcome);
        self.require(is_same, Invariant::SettledStays, || {
            format!("step {key} was settled and changed to {outcome}")
        });
        self.tables.settled.insert(key.to_owned(), outcome);
    }

    fn event_written(&mut self, key: &str, value: &str) {
        let Ok(event) = serde_json::from_str::<Event>(value) else {
            return self.violate(Invariant::NothingBreaks, format!("event {key} cannot be read: {value}"));
        };
        let reported = event.job.filter(|_| event.kind == EventKind::StepProgress);
        if reported.is_some() && self.tables.progress.get(key) == reported.as_ref() {
            // Progress may replace the last progress of its job, and nothing else.
            return;
        }
        self.tables.progress.extend(reported.map(|job| (key.to_owned(), job)));
        let number = last_part(key).parse::<u64>().unwrap_or(0);
        let last = self.tables.timelines.insert(before_last_part(key).to_owned(), number).unwrap_or(0);
        self.require(number == last + 1, Invariant::TimelineHasNoGaps, || {
            format!("event {number} of run {} follows event {last}", before_last_part(key))
        });
    }

    /// Only a reservation may be released, and a key may be deleted when its retention is over.
    fn key_removed(&mut self, action: &str, key: &str) {
        let now = self.clock.now();
        let rows = self.tables.tenants.entry(first_part(key).to_owned()).or_default();
        let was_reserved = rows.reserved.remove(key);
        let is_over = rows.ending.remove(key).is_some_and(|at| at <= now);
        self.require(was_reserved || is_over, Invariant::OneRunPerKey, || {
            format!("key {key}, which had started a run, was removed to {action}")
        });
    }

    fn check_key(&mut self, key: &str, value: &str) {
        let tenant = first_part(key);
        let row = serde_json::from_str::<KeyRow>(value).ok();
        let is_reserved = row.as_ref().is_some_and(|row| row.reservation.is_some());
        let rows = self.tables.tenants.entry(tenant.to_owned()).or_default();
        keep(&mut rows.reserved, key, is_reserved);
        rows.ending.remove(key);
        if let Some(at) = row.as_ref().and_then(|row| row.expires_at) {
            rows.ending.insert(key.to_owned(), at);
        }
        if is_reserved {
            return;
        }
        let is_there = row.is_some_and(|row| rows.starts.contains(&format!("{tenant}/{}", row.run)));
        self.require(is_there, Invariant::NoKeyWithoutRun, || {
            format!("key {key} points to a run that is not there")
        });
    }

    /// Every live run but those that wait holds a slot, and nothing else does.
    fn check_slots(&mut self, tenant: &str) {
        let Some(TenantRows { counter, slots, live, queued, children, .. }) = self.tables.tenants.get(tenant)
        else {
            return;
        };
        if let Some(child) = children.intersection(slots).next() {
            let what = format!("child {child} holds a slot of its own");
            return self.violate(Invariant::ChildInItsRootsSlot, what);
        }
        let needs_slot = |run: &&String| !queued.contains(*run) && !children.contains(*run);
        let has_none = live.iter().filter(needs_slot).any(|run| !slots.contains(run));
        if has_none || !slots.is_subset(live) || *counter as usize != slots.len() {
            let (slots, live) = (slots.len(), live.len());
            let what =
                format!("tenant {tenant} counts {counter} runs, has {slots} slots and {live} live runs");
            self.violate(Invariant::SlotsAreLiveRuns, what);
        }
    }

    /// Live runs by the tables and by the calls must be the same; checked where both have taken a call in.
    pub(crate) fn check_live(&mut self) {
        let by_rows: usize = self.tables.tenants.values().map(|rows| rows.slots.len()).sum();
        let by_calls: usize = self.tenants.values().map(|tenant| tenant.live.len()).sum();
        self.require(by_rows == by_calls, Invariant::SlotsAreLiveRuns, || {
            format!("{by_rows} runs are live by the tables and {by_calls} by the calls")
        });
    }
}

fn keep(set: &mut BTreeSet<String>, key: &str, is_there: bool) {
    if is_there {
        set.insert(key.to_owned());
    } else {
        set.remove(key);
    }
}

fn first_part(key: &str) -> &str {
    key.split('/').next().unwrap_or(key)
}

fn last_part(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn before_last_part(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(before, _)| before)
}
