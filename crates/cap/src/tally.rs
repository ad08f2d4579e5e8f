//! What the edge has done, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counted since the process began.
#[derive(Debug, Default)]
pub struct Tally {
    /// Jobs pushed to workers.
    pub jobs_pushed: Count,
    /// Jobs given back because they could not be pushed.
    pub jobs_given_back: Count,
    /// Jobs taken from workers that fell silent.
    pub jobs_abandoned: Count,
    /// Results that the store has.
    pub results_recorded: Count,
    /// Results that the store or the lease's holder ruled out: stale, unknown, of another worker.
    pub results_refused: Count,
    /// Deliveries of results that were put off.
    pub results_put_off: Count,
    /// Results that became dead letters.
    pub results_buried: Count,
    /// Packets that could not be read, or were none of ours.
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

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
