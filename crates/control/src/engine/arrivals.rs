//! Measures the results that a turn takes into account: how long each waited for its run.

use std::time::Duration;

use interlock_backend::runs::AcquiredRun;
use interlock_model::{JobId, RunId, Timestamp};
use tokio::time::Instant;

use super::LeaseRequest;
use crate::contention::Contention;
use crate::traces::result_of;

/// A result that its run was acquired with.
pub(crate) struct ResultArrival {
    pub(crate) job: JobId,
    /// The delivery at which it reached its run, from 1.
    pub(crate) attempt: u32,
    /// From its first delivery until its run was asked for.
    pub(crate) waited: Duration,
}

pub(super) struct Arrivals {
    run: RunId,
    /// When the run was held.
    held_at: Instant,
    /// Of each, the delivery at which it reached its run, and how long it had waited.
    results: Vec<(u32, Duration)>,
}

impl Arrivals {
    /// The results in the inbox of a run that was just acquired. `first` says more about the one it was acquired with.
    pub(super) fn of(acquired: &AcquiredRun, request: LeaseRequest, first: Option<&ResultArrival>) -> Self {
        let arrival = |(job, at): (&JobId, Timestamp)| match first.filter(|first| first.job == *job) {
            Some(ResultArrival { attempt, waited, .. }) => Some((*attempt, *waited + request.at.elapsed())),
            // An older release did not write the time of arrival.
            None if at == Timestamp::ZERO => None,
            None => Some((1, acquired.now.since(at))),
        };
        let results = acquired.inbox.iter().filter_map(result_of).filter_map(arrival).collect();
        Self { run: acquired.start.run, held_at: Instant::now(), results }
    }

    /// Their turn is in the store.
    pub(super) fn settled(&self, contention: &Contention) {
        let (arm, _) = contention.lock_busy(self.run);
        let held = self.held_at.elapsed();
        for (attempt, waited) in &self.results {
            contention.tally.settled(arm, (*attempt, *waited), *waited + held);
        }
    }
}
