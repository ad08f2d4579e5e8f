//! Jobs that a look found though nobody had said that they are there.
//!
//! A word may be on its way: only what nobody has said within a while of the look was an orphan.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_model::{TenantId, Topic};
use tokio::time::Instant;

/// How long a word may be on its way.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Places that are remembered, of each kind.
const REMEMBERED_MAX: usize = 10_000;

/// What was found without a word, and what was said lately.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    found: VecDeque<(Instant, Place)>,
    said: BTreeMap<Place, Instant>,
    /// Found, and nobody has said anything about them.
    unsaid: u64,
}

type Place = (TenantId, Topic);

impl Orphans {
    /// A look found a job of this topic that it was not told of.
    pub(crate) fn found(&self, tenant: &TenantId, topic: &Topic) {
        let (now, place) = (Instant::now(), (tenant.clone(), topic.clone()));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(now);
        let was_said = state.said.get(&place).is_some_and(|at| now.duration_since(*at) < LATE_MAX);
        if !was_said && state.found.len() < REMEMBERED_MAX {
            state.found.push_back((now, place));
        }
    }

    /// Somebody said that there are jobs of this topic: what was found of it a moment ago was meant.
    pub(crate) fn said(&self, tenant: &TenantId, topic: &Topic) {
        let (now, place) = (Instant::now(), (tenant.clone(), topic.clone()));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(now);
        state.found.retain(|(_, found)| *found != place);
        if state.said.len() >= REMEMBERED_MAX {
            state.said.retain(|_, at| now.duration_since(*at) < LATE_MAX);
        }
        state.said.insert(place, now);
    }

    /// Words were missed, and nobody knows which: what was found lately may have been meant.
    pub(crate) fn missed_words(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(Instant::now());
        state.found.clear();
    }

    /// How many nobody has said anything about, since the process began.
    pub(crate) fn count(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(Instant::now());
        state.unsaid
    }
}

impl State {
    /// What has been waited for long enough counts.
    fn settle(&mut self, now: Instant) {
        while self.found.pop_front_if(|(at, _)| now.duration_since(*at) >= LATE_MAX).is_some() {
            self.unsaid += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_nobody_speaks_of_within_a_while_was_an_orphan_and_counts_once() {
        let (orphans, acme, build) = (Orphans::default(), "acme".parse().unwrap(), "build".parse().unwrap());
        orphans.found(&acme, &build);
        assert_eq!(orphans.count(), 0, "a word may be on its way");
        tokio::time::advance(LATE_MAX).await;
        assert_eq!((orphans.count(), orphans.count()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_word_before_or_after_the_look_means_what_was_found_and_nothing_else() {
        let (orphans, acme) = (Orphans::default(), "acme".parse().unwrap());
        let (build, test): (Topic, Topic) = ("build".parse().unwrap(), "test".parse().unwrap());
        orphans.found(&acme, &build);
        orphans.said(&acme, &build);
        orphans.found(&acme, &build);
        orphans.found(&acme, &test);
        orphans.said(&"globex".parse().unwrap(), &test);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 1);
        orphans.found(&acme, &build);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 2, "an old word does not mean what came later");
    }
}
