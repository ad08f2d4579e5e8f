//! Results that a turn takes into account, as they are counted: how long each waited for its run.

use std::time::Duration;

use interlock_backend::runs::Taken;
use interlock_model::RunId;
use interlock_model::Timestamp;
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use tokio::time::Instant;

use super::Asked;
use crate::contention::Contention;
use crate::deliveries::Delivery;

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
    /// What workers said of a run that was just taken. Of a result that came with the taking, `delivery` knows more.
    pub(super) fn of(taken: &Taken, asked: Asked, delivery: Option<&Delivery>) -> Self {
        let arrival = |event: &InboxEvent| match event {
            InboxEvent::Job {
                job,
                outcome: JobOutcome::Completed { .. } | JobOutcome::Failed { .. },
                at,
            } => {
                match delivery.filter(|delivery| delivery.job == *job) {
                    Some(Delivery { attempt, waited, .. }) => {
                        Some(Arrival { attempt: *attempt, waited: *waited + asked.at.elapsed() })
                    }
                    // An older release did not write down when it came.
                    None if *at == Timestamp::ZERO => None,
                    None => Some(Arrival { attempt: 1, waited: taken.now.since(*at) }),
                }
            }
            InboxEvent::Job { .. }
            | InboxEvent::Approval { .. }
            | InboxEvent::ApprovalAsked { .. }
            | InboxEvent::Cancel { .. }
            | InboxEvent::Retry { .. } => None,
        };
        let results = taken.inbox.iter().filter_map(arrival).collect();
        Self { run: taken.start.run, held_at: Instant::now(), results }
    }

    /// Their turn is in the store.
    pub(super) fn settled(&self, contention: &Contention) {
        let (arm, _) = contention.lock_busy(self.run);
        let held = self.held_at.elapsed();
        for Arrival { attempt, waited } in &self.results {
            contention.tally().reached(arm, *attempt, *waited);
            contention.tally().settled(arm, *waited + held);
        }
    }
}
