//! Loops that one replica at a time runs: each ticks at its period under its own lock.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_model::Fence;
use interlock_model::lock::StageLock;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{DriftedSlots, DueTimers, LostJobs, Reconcilers, Retention, Snapshot, StuckRuns, WaitingJobs};
use super::{drifted_slots, due_timers, lost_jobs, retention, snapshot, stuck_runs, waiting_jobs};
use crate::lease::Loss;
use crate::loop_lock::LoopLock;

/// What one tick of one loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickReport {
    LostJobs(LostJobs),
    WaitingJobs(WaitingJobs),
    StuckRuns(StuckRuns),
    DriftedSlots(DriftedSlots),
    DueTimers(DueTimers),
    Retention(Retention),
    Snapshot(Snapshot),
}

/// What became of one tick.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Tick {
    Done(TickReport),
    /// Another replica has the lock.
    NotOurs,
    /// The lock was lost, and what was left of the tick was dropped.
    Dropped(Loss),
}

/// The first tick comes this soon after the start, or at the period if that is shorter.
const FIRST_TICK_MAX: Duration = Duration::from_secs(1);

/// Ticks until `shutdown`, whenever this replica has the lock.
pub async fn run(reconcilers: Arc<Reconcilers>, stage: StageLock, shutdown: CancellationToken) {
    let row = reconcilers.process.settings.locks.stage(stage);
    let every = row.renewed_every.unwrap_or(row.ttl / 2);
    let first = Instant::now() + reconcilers.process.jittered(every.min(FIRST_TICK_MAX));
    let mut period = interval_at(first, every);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lock = reconcilers.loop_lock(stage);
    let mut trouble = Trouble { stage, is_known: false };
    let ticking = async {
        loop {
            period.tick().await;
            let ticked = reconcilers.tick(&mut lock, stage).await;
            if matches!(ticked, Ok(Tick::NotOurs)) {
                // A dead holder is followed when its lease expires, and not a period later.
                let free_in = lock.free_in().unwrap_or(every).saturating_add(Duration::from_millis(1));
                period.reset_after(free_in.min(every));
            }
            trouble.note(ticked);
        }
    };
    // Cut short anywhere: each step of a tick is whole, and the next replica begins from the beginning.
    shutdown.run_until_cancelled(ticking).await;
}

impl Reconcilers {
    #[must_use]
    pub fn loop_lock(&self, stage: StageLock) -> LoopLock {
        LoopLock::new(&self.process, stage)
    }

    /// One tick, if this replica has the lock or gets it now.
    pub async fn tick(&self, lock: &mut LoopLock, stage: StageLock) -> Result<Tick, StoreError> {
        let Some(lease) = lock.tick(&self.process).await? else {
            self.process.counts.is_not_ours(stage);
            return Ok(Tick::NotOurs);
        };
        let fence = lease.fence();
        match lease.guard(self.work(stage, fence)).await {
            Ok(Ok(report)) => {
                self.process.counts.ticked(stage);
                Ok(Tick::Done(report))
            }
            Ok(Err(error)) => {
                if matches!(error, StoreError::Fenced { .. }) {
                    lock.give_up();
                }
                Err(error)
            }
            Err(loss) => {
                lock.give_up();
                Ok(Tick::Dropped(loss))
            }
        }
    }

    async fn work(&self, stage: StageLock, fence: Fence) -> Result<TickReport, StoreError> {
        let process = &self.process;
        match stage {
            StageLock::Reconciler => lost_jobs::look(process).await.map(TickReport::LostJobs),
            StageLock::PendingReplayer => waiting_jobs::look(process).await.map(TickReport::WaitingJobs),
            StageLock::EngineReconciler => stuck_runs::look(process).await.map(TickReport::StuckRuns),
            StageLock::SlotReconciler => drifted_slots::look(self).await.map(TickReport::DriftedSlots),
            StageLock::TimerReconciler => due_timers::look(process).await.map(TickReport::DueTimers),
            StageLock::Retention => retention::look(self).await.map(TickReport::Retention),
            StageLock::SnapshotWriter => snapshot::write(process, fence).await.map(TickReport::Snapshot),
        }
    }
}

impl TickReport {
    fn tenants_failed(&self) -> usize {
        match self {
            Self::LostJobs(found) => found.tenants_failed,
            Self::WaitingJobs(found) => found.tenants_failed,
            Self::DriftedSlots(found) => found.tenants_failed,
            Self::DueTimers(found) => found.tenants_failed,
            Self::Retention(found) => found.tenants_failed,
            Self::StuckRuns(_) | Self::Snapshot(_) => 0,
        }
    }
}

/// Logged once when it begins and once when it ends, however many ticks it lasts.
struct Trouble {
    stage: StageLock,
    is_known: bool,
}

impl Trouble {
    fn note(&mut self, ticked: Result<Tick, StoreError>) {
        let key = self.stage.key();
        let trouble = match ticked {
            Ok(Tick::Done(report)) => {
                debug!(key, ?report, "ticked");
                let failed = report.tenants_failed();
                (failed > 0).then(|| format!("{failed} tenants could not be read"))
            }
            Ok(Tick::NotOurs) => None,
            Ok(Tick::Dropped(loss)) => Some(loss.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match &trouble {
            Some(trouble) if !self.is_known => {
                warn!(key, trouble, "loop failed; retrying");
            }
            None if self.is_known => info!(key, "loop recovered"),
            Some(_) | None => {}
        }
        self.is_known = trouble.is_some();
    }
}
