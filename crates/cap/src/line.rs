//! Who waits for a push: tenants with jobs, each tenant once, in the order of their turns.
//!
//! A turn is at most [`TURN_MAX`] jobs of one tenant. Whoever had one goes to the end of the line; whoever had none, for
//! want of room, keeps its place and gets the next room. So between the moment when a tenant asks and its turn, another
//! tenant has at most one turn here, whatever it floods us with and over however many topics.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use interlock_model::{TenantId, Topic};
use tokio::sync::Notify;

/// Jobs that a tenant is given before the next tenant's turn. Every replica has a line of its own: with three of them,
/// nobody's single job waits for more than nine of another's.
pub(crate) const TURN_MAX: usize = 3;

/// Entries at most. What does not fit is found by the next look at all tenants.
const ENTRIES_MAX: usize = 100_000;

/// What a tenant may have waiting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) tenant: TenantId,
    pub(crate) work: Work,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// Jobs of one topic.
    Topic(Topic),
    /// Nobody told of any: the tenant is to be looked at.
    Anything,
}

/// How many jobs are thought to wait there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Jobs(usize),
    /// Nobody has counted: so many are tried, and more if there were so many.
    AtLeast(usize),
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// Jobs that went out.
    pub(crate) jobs: usize,
    /// What is thought to be left; none if nothing more is known to wait.
    pub(crate) left: Option<Wanted>,
}

#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    tenants: VecDeque<TenantId>,
    standing: HashMap<TenantId, Standing>,
    entries: usize,
    /// Tenants at the front that were tried in this round and had no room.
    passed: usize,
    /// Every tenant is to be looked at.
    look_at_all: bool,
}

/// One tenant in the line. What it asks for while it has its turn is told apart from what the turn is about.
#[derive(Debug, Default)]
struct Standing {
    works: VecDeque<Work>,
    wanted: HashMap<Work, Option<Wanted>>,
    /// Works that were tried in this round and had no room.
    tried: usize,
}

impl Line {
    /// Puts the tenant at the end of the line, or remembers that it wants more where it stands.
    pub(crate) fn ask(&self, place: Place, wanted: Wanted) {
        self.put(place, wanted);
        self.changed.notify_one();
    }

    /// The same, by who is about to serve the line.
    pub(crate) fn put(&self, Place { tenant, work }: Place, wanted: Wanted) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let is_full = state.entries >= ENTRIES_MAX;
        if !state.standing.contains_key(&tenant) {
            if is_full {
                return;
            }
            state.tenants.push_back(tenant.clone());
        }
        let standing = state.standing.entry(tenant).or_default();
        match standing.wanted.get_mut(&work) {
            Some(known) => *known = Some(known.map_or(wanted, |known| known.and(wanted))),
            None if is_full => {}
            None => {
                standing.works.push_back(work.clone());
                standing.wanted.insert(work, Some(wanted));
                state.entries += 1;
            }
        }
    }

    /// Begins a round: everybody may try again.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.passed = 0;
        for standing in state.standing.values_mut() {
            standing.tried = 0;
        }
    }

    /// Whose turn it is in this round. It ends with [`end_turn`](Self::end_turn).
    pub(crate) fn next(&self) -> Option<(Place, Wanted)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let tenant = state.tenants.get(state.passed)?.clone();
        let standing = state.standing.get_mut(&tenant)?;
        let work = standing.works.front()?.clone();
        let wanted = standing.wanted.get_mut(&work)?.take()?;
        Some((Place { tenant, work }, wanted))
    }

    /// Whoever was given something goes to the end; who was not, keeps its place.
    pub(crate) fn end_turn(&self, Place { tenant, work }: &Place, served: Served) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let Some(standing) = state.standing.get_mut(tenant) else { return };
        let more = standing.wanted.get(work).copied().flatten();
        let left = match (served.left, more) {
            (Some(left), Some(more)) => Some(left.and(more)),
            (left, more) => left.or(more),
        };
        standing.works.pop_front();
        if left.is_some() {
            standing.works.push_back(work.clone());
            standing.wanted.insert(work.clone(), left);
            standing.tried += 1;
        } else {
            standing.wanted.remove(work);
            state.entries -= 1;
        }
        if standing.works.is_empty() {
            state.tenants.remove(state.passed);
            state.standing.remove(tenant);
        } else if served.jobs > 0 {
            standing.tried = 0;
            state.tenants.remove(state.passed);
            state.tenants.push_back(tenant.clone());
        } else if standing.tried >= standing.works.len() {
            state.passed += 1;
        }
    }

    /// Room was made: whoever waits may try again.
    pub(crate) fn try_again(&self) {
        self.changed.notify_one();
    }

    /// Something was missed, or somebody new serves: every tenant may have jobs.
    pub(crate) fn look_at_all(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).look_at_all = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_to_look_at_all(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).look_at_all
    }

    pub(crate) fn take_look_at_all(&self) -> bool {
        std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).look_at_all)
    }

    /// Returns when something has changed since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Wanted {
    pub(crate) fn jobs(self) -> usize {
        match self {
            Self::Jobs(jobs) | Self::AtLeast(jobs) => jobs,
        }
    }

    /// What is left when so many were found, and all that were asked for; none if that was all.
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
