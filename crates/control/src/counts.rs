//! What the stages of this process count, for metrics.

use std::sync::{Mutex, PoisonError};

use interlock_model::contention::Histogram;
use interlock_model::job::StaleState;
use interlock_model::lock::StageLock;
use interlock_model::run::QueueExit;

/// Counted since the process began, and found by its last scans.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Ticks of each loop that this replica has made, in the order of [`StageLock::ALL`].
    pub ticks: [u64; StageLock::ALL.len()],
    /// Jobs that waited although a worker could have claimed them, until a scan found them.
    pub orphans_replayed: u64,
    /// Jobs without a live lease at the last slow scan of this replica, in the order of [`StaleState::ALL`]; none if another
    /// scans.
    pub stale_jobs: [u64; StaleState::ALL.len()],
    /// Slots and runs that did not agree at the last scan of this replica; none if another scans.
    pub slot_drift: u64,
    /// Results of NATS workers that came under a stale fence.
    pub results_refused: u64,
    /// Commits of turns that came under a stale fence: another replica has had the run since.
    pub commits_refused: u64,
    /// Turns that panicked or ran out of time. Those of a process that died are counted by none.
    pub turns_abandoned: u64,
    /// Runs that this process has quarantined.
    pub runs_quarantined: u64,
    /// Snapshots of workers that came under a stale fence: another replica writes them.
    pub snapshots_refused: u64,
    /// From when a job was queued until its lease began.
    pub job_lock_wait: Histogram,
    /// Runs that waited for a limit and do so no more, in the order of [`QueueExit::ALL`].
    pub queue_exits: [u64; QueueExit::ALL.len()],
    /// From the creation of a run that waited until it began.
    pub queue_wait: Histogram,
}

#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<Counted>);

impl Counts {
    pub(crate) fn update(&self, change: impl FnOnce(&mut Counted)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn counted(&self) -> Counted {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
