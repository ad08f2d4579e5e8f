//! What the stages of this process count, for metrics. All of it is there from the start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_model::contention::Histogram;
use interlock_model::job::StaleState;
use interlock_model::lock::StageLock;

/// Counted since the process began, and found at the last look.
#[derive(Debug, Default)]
pub struct Counts {
    ticks: [AtomicU64; StageLock::ALL.len()],
    orphans_replayed: AtomicU64,
    stale_jobs: [AtomicU64; StaleState::ALL.len()],
    slot_drift: AtomicU64,
    results_refused: AtomicU64,
    job_lock_wait: Mutex<Histogram>,
}

/// The counts at one moment.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Ticks of each loop that this replica has made.
    pub ticks: Vec<(StageLock, u64)>,
    /// Jobs that waited though somebody could have had them, until a look found them.
    pub orphans_replayed: u64,
    /// Jobs without a live lease at the last slow look of this replica; none if another looks.
    pub stale_jobs: Vec<(StaleState, u64)>,
    /// Slots and runs that did not agree at the last look of this replica; none if another looks.
    pub slot_drift: u64,
    /// Results of NATS workers that came under a stale fence.
    pub results_refused: u64,
    /// From when a job was queued until its lease began.
    pub job_lock_wait: Histogram,
}

impl Counts {
    pub(crate) fn ticked(&self, stage: StageLock) {
        self.ticks[place(&StageLock::ALL, stage)].fetch_add(1, Ordering::Relaxed);
    }

    /// Jobs that nobody could have had were put back.
    pub(crate) fn count_orphans(&self, jobs: usize) {
        self.orphans_replayed.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn found_stale(&self, state: StaleState, jobs: usize) {
        self.stale_jobs[place(&StaleState::ALL, state)].store(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn found_drift(&self, slots: usize) {
        self.slot_drift.store(slots as u64, Ordering::Relaxed);
    }

    pub(crate) fn result_refused(&self) {
        self.results_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Another replica looks now: what this one has found is no longer the last.
    pub(crate) fn is_not_ours(&self, stage: StageLock) {
        match stage {
            StageLock::Reconciler => StaleState::ALL.into_iter().for_each(|state| self.found_stale(state, 0)),
            StageLock::SlotReconciler => self.found_drift(0),
            StageLock::PendingReplayer
            | StageLock::EngineReconciler
            | StageLock::TimerReconciler
            | StageLock::Retention
            | StageLock::SnapshotWriter => {}
        }
    }

    pub(crate) fn waited_for_a_lease(&self, waited: Duration) {
        let mut waits = self.job_lock_wait.lock().unwrap_or_else(PoisonError::into_inner);
        waits.observe(waited.as_secs_f64() * 1_000.0);
    }

    #[must_use]
    pub fn counted(&self) -> Counted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            ticks: StageLock::ALL.into_iter().zip(self.ticks.iter().map(read)).collect(),
            orphans_replayed: read(&self.orphans_replayed),
            stale_jobs: StaleState::ALL.into_iter().zip(self.stale_jobs.iter().map(read)).collect(),
            slot_drift: read(&self.slot_drift),
            results_refused: read(&self.results_refused),
            job_lock_wait: self.job_lock_wait.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

fn place<T: PartialEq + Copy>(all: &[T], one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_default()
}
