//! Measures the results that a turn takes into account: how long each waited for its run.

use std::time::Duration;

use interlock_backend::runs::AcquiredRun;
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::{JobId, RunId, Timestamp};
use tokio::time::Instant;

use super::LeaseRequest;
use crate::contention::Contention;

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
    results: Vec<Arrival>,
}

struct Arrival {
    /// The delivery at which it reached its run.
    attempt: u32,
    waited: Duration,
}

impl Arrivals {
    /// The results in the inbox of a run that was just acquired. `first` says more about the one it was acquired with.
    pub(super) fn of(acquired: &AcquiredRun, request: LeaseRequest, first: Option<&ResultArrival>) -> Self {
        let arrival = |event: &InboxEvent| match event {
            InboxEvent::Job {
                job,
                outcome: JobOutcome::Completed { .. } | JobOutcome::Failed { .. },
                at,
            } => {
                match first.filter(|first| first.job == *job) {
                    Some(ResultArrival { attempt, waited, .. }) => {
                        Some(Arrival { attempt: *attempt, waited: *waited + request.at.elapsed() })
                    }
                    // An older release did not write down when it came.
                    None if *at == Timestamp::ZERO => None,
                    None => Some(Arrival { attempt: 1, waited: acquired.now.since(*at) }),
                }
            }
            InboxEvent::Job { .. }
            | InboxEvent::Approval { .. }
            | InboxEvent::ApprovalAsked { .. }
            | InboxEvent::Cancel { .. }
            | InboxEvent::Retry { .. } => None,
        };
        let results = acquired.inbox.iter().filter_map(arrival).collect();
        Self { run: acquired.start.run, held_at: Instant::now(), results }
    }

    /// Their turn is in the store.
    pub(super) fn settled(&self, contention: &Contention) {
        let (arm, _) = contention.lock_busy(self.run);
        let held = self.held_at.elapsed();
        for Arrival { attempt, waited } in &self.results {
            contention.tally.reached(arm, *attempt, *waited);
            contention.tally.settled(arm, *waited + held);
        }
    }
}
