//! Finds orphans: jobs that a poll found although no wake-up had announced them.
//!
//! A wake-up may be on its way: a job is an orphan only if none arrives within a while of the poll.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interlock_model::{TenantId, Topic};
use tokio::time::Instant;

/// How late a wake-up may be.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Places that are remembered, of each kind.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Orphans {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    found: VecDeque<(Instant, Place)>,
    announced: BTreeMap<Place, Instant>,
    /// Where the last poll for a worker with free capacity found nothing, and no wake-up arrived since.
    empty: BTreeSet<Place>,
    /// Found, and never announced.
    orphans: u64,
}

type Place = (TenantId, Topic);

impl Orphans {
    /// A poll found a job of this topic that should have been announced before.
    pub(crate) fn found(&self, tenant: &TenantId, topic: &Topic) {
        let now = Instant::now();
        self.settled(now).found((tenant.clone(), topic.clone()), now);
    }

    /// A poll for a worker with free capacity found jobs of `found` among `topics`. A job of a topic that had none at the
    /// previous poll should have been announced.
    pub(crate) fn polled(&self, tenant: &TenantId, topics: &[Topic], found: &[Topic]) {
        let now = Instant::now();
        let mut state = self.settled(now);
        for topic in topics {
            let place = (tenant.clone(), topic.clone());
            if found.is_empty() {
                if state.empty.len() < REMEMBERED_MAX {
                    state.empty.insert(place);
                }
            } else if state.empty.remove(&place) && found.contains(topic) {
                state.found(place, now);
            }
        }
    }

    /// A wake-up announced jobs of this topic: what was found a moment ago is no orphan.
    pub(crate) fn announced(&self, tenant: &TenantId, topic: &Topic) {
        let (now, place) = (Instant::now(), (tenant.clone(), topic.clone()));
        let mut state = self.settled(now);
        state.found.retain(|(_, found)| *found != place);
        state.empty.remove(&place);
        if state.announced.len() >= REMEMBERED_MAX {
            state.announced.retain(|_, at| now.duration_since(*at) < LATE_MAX);
        }
        state.announced.insert(place, now);
    }

    /// Wake-ups were missed, and any of them may have announced what was found lately.
    pub(crate) fn wakeups_missed(&self) {
        let mut state = self.settled(Instant::now());
        state.found.clear();
        state.empty.clear();
    }

    /// Orphans since the process began.
    pub(crate) fn count(&self) -> u64 {
        self.settled(Instant::now()).orphans
    }

    /// The state, with jobs counted whose wake-up is too late.
    fn settled(&self, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.found.pop_front_if(|(at, _)| now.duration_since(*at) >= LATE_MAX).is_some() {
            state.orphans += 1;
        }
        state
    }
}

impl State {
    fn found(&mut self, place: Place, now: Instant) {
        let was_announced = self.announced.get(&place).is_some_and(|at| now.duration_since(*at) < LATE_MAX);
        if !was_announced && self.found.len() < REMEMBERED_MAX {
            self.found.push_back((now, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_found_job_without_a_wake_up_is_an_orphan_and_counts_once() {
        let (orphans, acme, build) = (Orphans::default(), "acme".parse().unwrap(), "build".parse().unwrap());
        orphans.found(&acme, &build);
        assert_eq!(orphans.count(), 0, "a wake-up may be on its way");
        tokio::time::advance(LATE_MAX).await;
        assert_eq!((orphans.count(), orphans.count()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_up_before_or_after_the_poll_clears_its_own_topic_and_no_other() {
        let (orphans, acme) = (Orphans::default(), "acme".parse().unwrap());
        let (build, test): (Topic, Topic) = ("build".parse().unwrap(), "test".parse().unwrap());
        orphans.found(&acme, &build);
        orphans.announced(&acme, &build);
        orphans.found(&acme, &build);
        orphans.found(&acme, &test);
        orphans.announced(&"globex".parse().unwrap(), &test);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 1);
        orphans.found(&acme, &build);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 2, "an old wake-up does not announce a later job");
    }
    #[tokio::test(start_paused = true)]
    async fn a_job_of_a_topic_that_was_empty_at_the_last_poll_is_an_orphan_unless_it_was_announced() {
        let (orphans, acme) = (Orphans::default(), "acme".parse().unwrap());
        let topics: Vec<Topic> = ["a", "b"].map(|topic| topic.parse().unwrap()).to_vec();
        let found = &topics[..1];
        orphans.polled(&acme, &topics, found);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 0, "it may have been there before");
        orphans.polled(&acme, &topics, &[]);
        orphans.polled(&acme, &topics, found);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 1);
        orphans.polled(&acme, &topics, &[]);
        orphans.announced(&acme, &topics[0]);
        tokio::time::advance(LATE_MAX * 2).await;
        orphans.polled(&acme, &topics, found);
        tokio::time::advance(LATE_MAX).await;
        assert_eq!(orphans.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_empty_topics_are_remembered() {
        let (orphans, acme) = (Orphans::default(), "acme".parse().unwrap());
        let topics: Vec<Topic> =
            (0..=REMEMBERED_MAX).map(|number| format!("t{number}").parse().unwrap()).collect();
        orphans.polled(&acme, &topics, &[]);
        assert_eq!(orphans.settled(Instant::now()).empty.len(), REMEMBERED_MAX);
    }
}
