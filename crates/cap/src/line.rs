//! Who waits for a push: tenants with jobs, each topic once, in the order of their asking.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use interlock_model::{TenantId, Topic};
use tokio::sync::Notify;

/// Entries at most. What does not fit is found by the next look at all tenants.
const ENTRIES_MAX: usize = 100_000;

/// A tenant's jobs of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) tenant: TenantId,
    pub(crate) topic: Topic,
}

/// How many jobs are thought to wait there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Jobs(usize),
    /// Nobody has counted: so many are tried, and more if there were so many.
    AtLeast(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Line {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    places: VecDeque<Place>,
    wanted: HashMap<Place, Wanted>,
    /// Every tenant is to be looked at.
    look_at_all: bool,
}

impl Line {
    /// Puts the place at the end of the line, or remembers that more is wanted where it stands.
    pub(crate) fn ask(&self, place: Place, wanted: Wanted) {
        self.put(place, wanted);
        self.changed.notify_one();
    }

    /// The same, for somebody who has to wait for room: nothing is to be done at once.
    pub(crate) fn wait_for_room(&self, place: Place, wanted: Wanted) {
        self.put(place, wanted);
    }

    fn put(&self, place: Place, wanted: Wanted) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = state.wanted.get_mut(&place) {
            *standing = standing.and(wanted);
        } else if state.wanted.len() < ENTRIES_MAX {
            state.wanted.insert(place.clone(), wanted);
            state.places.push_back(place);
        }
    }

    pub(crate) fn next(&self) -> Option<(Place, Wanted)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = state.places.pop_front()?;
        let wanted = state.wanted.remove(&place)?;
        Some((place, wanted))
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
mod tests {
    use super::*;

    fn place(tenant: &str) -> Place {
        Place { tenant: tenant.parse().unwrap(), topic: "topic".parse().unwrap() }
    }

    #[test]
    fn a_tenant_that_asks_again_keeps_its_place() {
        let line = Line::default();
        line.ask(place("greedy"), Wanted::Jobs(5));
        line.ask(place("modest"), Wanted::Jobs(1));
        line.ask(place("greedy"), Wanted::Jobs(7));
        assert_eq!(line.next(), Some((place("greedy"), Wanted::Jobs(12))));
        // It goes to the end with what is left.
        line.ask(place("greedy"), Wanted::Jobs(8));
        assert_eq!(line.next(), Some((place("modest"), Wanted::Jobs(1))));
        assert_eq!(line.next(), Some((place("greedy"), Wanted::Jobs(8))));
        assert_eq!(line.next(), None);
    }

    #[test]
    fn an_uncounted_place_is_asked_for_more_each_time() {
        assert_eq!(Wanted::AtLeast(1).after(1), Some(Wanted::AtLeast(2)));
        assert_eq!(Wanted::Jobs(3).after(2), Some(Wanted::Jobs(1)));
        assert_eq!(Wanted::Jobs(3).after(3), None);
    }
}
