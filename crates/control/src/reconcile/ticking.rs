//! Loops that one replica at a time runs: each ticks at its period under its own lock.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_model::Fence;
use interlock_model::lock::StageLock;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{DriftedSlots, DueTimers, LostJobs, Retention, Snapshot, StandingRuns, WaitingJobs};
use super::{drifted_slots, due_timers, lost_jobs, retention, snapshot, standing_runs, waiting_jobs};
use crate::locks::{LoopLock, Loss};
use crate::service::Control;

/// What one tick of one loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    LostJobs(LostJobs),
    WaitingJobs(WaitingJobs),
    StandingRuns(StandingRuns),
    DriftedSlots(DriftedSlots),
    DueTimers(DueTimers),
    Retention(Retention),
    Snapshot(Snapshot),
}

/// What became of one tick.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Tick {
    Done(Report),
    /// Another replica has the lock.
    NotOurs,
    /// The lock was lost, and what was left of the tick was dropped.
    Dropped(Loss),
}

/// The first tick comes this soon after the start, or at the period if that is shorter.
const FIRST_TICK_MAX: Duration = Duration::from_secs(1);

/// Ticks until `shutdown`, whenever this replica has the lock.
pub async fn run(control: Arc<Control>, stage: StageLock, shutdown: CancellationToken) {
    let row = control.settings.locks.stage(stage);
    let every = row.renewed_every.unwrap_or(row.ttl / 2);
    let first = Instant::now() + control.jittered(every.min(FIRST_TICK_MAX));
    let mut period = interval_at(first, every);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lock = LoopLock::new(&control, stage);
    let mut trouble = Trouble { stage, is_known: false };
    let ticking = async {
        loop {
            period.tick().await;
            let ticked = run_once(&control, &mut lock, stage).await;
            if matches!(ticked, Ok(Tick::NotOurs)) {
                // A holder that has died is followed when its hold ends, and not a period later.
                let free_in = lock.free_in().unwrap_or(every).saturating_add(Duration::from_millis(1));
                period.reset_after(free_in.min(every));
            }
            trouble.note(ticked);
        }
    };
    // Cut short anywhere: each step of a tick is whole, and the next replica begins from the beginning.
    shutdown.run_until_cancelled(ticking).await;
}

/// One tick, if this replica has the lock or gets it now.
pub async fn run_once(control: &Control, lock: &mut LoopLock, stage: StageLock) -> Result<Tick, StoreError> {
    let Some(hold) = lock.tick(control).await? else {
        control.counts.is_not_ours(stage);
        return Ok(Tick::NotOurs);
    };
    let fence = hold.fence();
    let ticked = hold.guard(tick(control, stage, fence)).await;
    match ticked {
        Ok(Ok(report)) => {
            control.counts.ticked(stage);
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

async fn tick(control: &Control, stage: StageLock, fence: Fence) -> Result<Report, StoreError> {
    match stage {
        StageLock::Reconciler => lost_jobs::look(control).await.map(Report::LostJobs),
        StageLock::PendingReplayer => waiting_jobs::look(control).await.map(Report::WaitingJobs),
        StageLock::EngineReconciler => standing_runs::look(control).await.map(Report::StandingRuns),
        StageLock::SlotReconciler => drifted_slots::look(control).await.map(Report::DriftedSlots),
        StageLock::TimerReconciler => due_timers::look(control).await.map(Report::DueTimers),
        StageLock::Retention => retention::look(control).await.map(Report::Retention),
        StageLock::SnapshotWriter => snapshot::write(control, fence).await.map(Report::Snapshot),
    }
}

impl Report {
    fn tenants_failed(&self) -> usize {
        match self {
            Self::LostJobs(found) => found.tenants_failed,
            Self::WaitingJobs(found) => found.tenants_failed,
            Self::DriftedSlots(found) => found.tenants_failed,
            Self::DueTimers(found) => found.tenants_failed,
            Self::Retention(found) => found.tenants_failed,
            Self::StandingRuns(_) | Self::Snapshot(_) => 0,
        }
    }
}

/// Told once when it begins and once when it is over, however many ticks it lasts.
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
                (failed > 0).then(|| format!("{failed} tenants could not be looked at"))
            }
            Ok(Tick::NotOurs) => None,
            Ok(Tick::Dropped(loss)) => Some(loss.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match &trouble {
            Some(trouble) if !self.is_known => {
                warn!(key, trouble, "a loop could not do its work; trying again");
            }
            None if self.is_known => info!(key, "a loop does its work again"),
            Some(_) | None => {}
        }
        self.is_known = trouble.is_some();
    }
}
