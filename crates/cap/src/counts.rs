//! What this process has done for NATS workers, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counted since the process began.
#[derive(Debug, Default)]
pub struct NatsCounts {
    /// Jobs pushed to workers.
    pub jobs_pushed: Count,
    /// Jobs released because they could not be pushed.
    pub jobs_released: Count,
    /// Jobs that were dispatched again because their workers' heartbeats did not count them.
    pub pushes_lost: Count,
    /// Jobs taken from silent or restarted workers.
    pub jobs_abandoned: Count,
    /// Results that the store has.
    pub results_recorded: Count,
    /// Results that were rejected: stale, about an unknown job, or from a worker that does not hold the job.
    pub results_refused: Count,
    /// Deliveries of results that were deferred.
    pub results_deferred: Count,
    /// Results that became dead letters.
    pub results_buried: Count,
    /// Packets that could not be read or were not acceptable.
    pub packets_dropped: Count,
}

#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, number: usize) {
        self.0.fetch_add(u64::try_from(number).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn up(&self) {
        self.add(1);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
