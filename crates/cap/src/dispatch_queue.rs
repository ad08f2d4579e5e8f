//! Tenants with waiting jobs, served round-robin.
//!
//! A tenant gets at most [`QUANTUM`] jobs at a time. A tenant that got jobs goes to the end of the queue; one that got
//! none, because no worker had room, keeps its place and gets the next room. So between a tenant's request and its first
//! job, another tenant gets at most one quantum here, whatever it floods the queue with and over however many topics.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use interlock_model::{TenantId, Topic};
use tokio::sync::Notify;

/// Jobs that a tenant gets before the next tenant. Every replica has its own queue: with three replicas, a single job
/// waits for at most nine of another tenant.
pub(crate) const QUANTUM: usize = 3;

/// Entries at most. The next scan of all tenants finds what does not fit.
const ENTRIES_MAX: usize = 100_000;

/// A tenant's waiting jobs of one topic, or of any: then the tenant must be scanned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) tenant: TenantId,
    pub(crate) topic: Option<Topic>,
}

/// How many jobs are thought to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    Jobs(usize),
    /// Not counted: if this many are found, there may be more.
    AtLeast(usize),
}

/// The result of serving an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// Jobs that were pushed.
    pub(crate) jobs: usize,
    /// What is thought to be left, if anything.
    pub(crate) left: Option<Demand>,
}

#[derive(Debug, Default)]
pub(crate) struct DispatchQueue {
    state: Mutex<QueueState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    order: VecDeque<TenantId>,
    tenants: HashMap<TenantId, QueuedTenant>,
    entries: usize,
    /// Tenants at the front that were tried in this round and found no room.
    passed: usize,
    must_scan_all: bool,
}

/// The demand of a topic is taken out while it is served. What is added meanwhile is kept apart from it.
#[derive(Debug, Default)]
struct QueuedTenant {
    order: VecDeque<Option<Topic>>,
    demand: HashMap<Option<Topic>, Option<Demand>>,
    /// Topics that were tried in this round and found no room.
    tried: usize,
}

impl DispatchQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a demand and wakes the dispatcher. A tenant that waits already keeps its place.
    pub(crate) fn request(&self, entry: QueueEntry, demand: Demand) {
        self.add(entry, demand);
        self.wake();
    }

    /// The same without a wake-up, for the dispatcher itself.
    pub(crate) fn add(&self, QueueEntry { tenant, topic }: QueueEntry, demand: Demand) {
        let state = &mut *self.state();
        let is_full = state.entries >= ENTRIES_MAX;
        if !state.tenants.contains_key(&tenant) {
            if is_full {
                return;
            }
            state.order.push_back(tenant.clone());
        }
        let queued = state.tenants.entry(tenant).or_default();
        match queued.demand.get_mut(&topic) {
            Some(known) => *known = Some(known.map_or(demand, |known| known.and(demand))),
            None if is_full => {}
            None => {
                queued.order.push_back(topic.clone());
                queued.demand.insert(topic, Some(demand));
                state.entries += 1;
            }
        }
    }

    /// Begins a round: every tenant may be tried again.
    pub(crate) fn begin_round(&self) {
        let mut state = self.state();
        state.passed = 0;
        for queued in state.tenants.values_mut() {
            queued.tried = 0;
        }
    }

    /// The next entry of this round, until [`finish`](Self::finish).
    pub(crate) fn next(&self) -> Option<(QueueEntry, Demand)> {
        let state = &mut *self.state();
        let tenant = state.order.get(state.passed)?.clone();
        let queued = state.tenants.get_mut(&tenant)?;
        let topic = queued.order.front()?.clone();
        let demand = queued.demand.get_mut(&topic)?.take()?;
        Some((QueueEntry { tenant, topic }, demand))
    }

    /// Moves a tenant that got jobs to the end; one that got none keeps its place.
    pub(crate) fn finish(&self, QueueEntry { tenant, topic }: &QueueEntry, served: Served) {
        let state = &mut *self.state();
        let Some(queued) = state.tenants.get_mut(tenant) else { return };
        let added = queued.demand.get(topic).copied().flatten();
        let left = match (served.left, added) {
            (Some(left), Some(added)) => Some(left.and(added)),
            (left, added) => left.or(added),
        };
        queued.order.pop_front();
        if left.is_some() {
            queued.order.push_back(topic.clone());
            queued.demand.insert(topic.clone(), left);
            queued.tried += 1;
        } else {
            queued.demand.remove(topic);
            state.entries -= 1;
        }
        if queued.order.is_empty() {
            state.order.remove(state.passed);
            state.tenants.remove(tenant);
        } else if served.jobs > 0 {
            queued.tried = 0;
            state.order.remove(state.passed);
            state.order.push_back(tenant.clone());
        } else if queued.tried >= queued.order.len() {
            state.passed += 1;
        }
    }

    /// A worker may have room again.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// A wake-up was missed, or the workers have changed: every tenant may have jobs for them.
    pub(crate) fn scan_all(&self) {
        self.state().must_scan_all = true;
        self.wake();
    }

    pub(crate) fn must_scan_all(&self) -> bool {
        self.state().must_scan_all
    }

    pub(crate) fn take_scan_all(&self) -> bool {
        std::mem::take(&mut self.state().must_scan_all)
    }

    /// Returns when something has changed since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Demand {
    pub(crate) fn jobs(self) -> usize {
        match self {
            Self::Jobs(jobs) | Self::AtLeast(jobs) => jobs,
        }
    }

    /// What is left after this many jobs were found.
    pub(crate) fn after(self, found: usize) -> Option<Self> {
        match self {
            Self::Jobs(jobs) => jobs.checked_sub(found).filter(|&left| left > 0).map(Self::Jobs),
            Self::AtLeast(jobs) => Some(Self::AtLeast(jobs.max(found).saturating_mul(2))),
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Jobs(one), Self::Jobs(other)) => Self::Jobs(one.saturating_add(other)),
            (one, other) => Self::AtLeast(one.jobs().max(other.jobs())),
        }
    }
}

#[cfg(test)]
mod tests;
