//! Loops that one replica at a time runs: each ticks at its period under its own lock.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::verbs::{FindDue, ListExpiredLeases, RequeueJobs};
use interlock_backend::{StoreError, Wake};
use interlock_model::job::StaleState;
use interlock_model::lock::StageLock;
use interlock_model::{Fence, TenantId};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{ROWS_MAX, Reconcilers, TENANTS_MAX, retention, slots, snapshot};
use crate::every_tenant::EveryTenant;
use crate::journal;
use crate::lease::Loss;
use crate::loop_lock::LoopLock;

/// What one tick of one loop did. What its loop does not look for stays zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TickReport {
    pub tenants: usize,
    /// Tenants that could not be read this time.
    pub tenants_failed: usize,
    /// Tenants with ready runs; their engines were woken.
    pub tenants_ready: usize,
    /// Jobs without a live lease before they were ended, in the order of [`StaleState::ALL`].
    pub stale: [usize; StaleState::ALL.len()],
    /// Jobs that the quick pass had missed, and whose lease was ended.
    pub jobs_lost: usize,
    pub jobs_announced: usize,
    /// Orphans: jobs that were open, with no worker, and in no queue.
    pub jobs_requeued: usize,
    /// Slots without a live run, live runs without a slot, and wrong counts.
    pub slots_drifted: usize,
    pub slots_repaired: usize,
    /// Runs whose retry, delay or timeout was overdue.
    pub runs_fired: usize,
    /// Runs that ended longer ago than they are kept.
    pub runs_deleted: usize,
    /// Marks of deleted runs that started too long ago for a lost reply to bring them back.
    pub marks_removed: usize,
    /// Expired idempotency keys and reservations.
    pub keys_removed: usize,
    /// Expired leases of locks, of tenants that have used no lock since.
    pub leases_ended: usize,
    /// Workers in the snapshot.
    pub workers: usize,
    /// Workers that were not seen for too long.
    pub workers_forgotten: usize,
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

/// Steps that end stale jobs of one tenant in one tick; the rest waits for the next tick.
const EXPIRE_STEPS_MAX: usize = 20;

/// Jobs of one tenant that one scan reads, from the newest. One job of a topic is enough to wake its workers, who then claim
/// the oldest.
const JOBS_A_SCAN: usize = 500;

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
    pub fn loop_lock(&self, stage: StageLock) -> LoopLock {
        LoopLock::new(&self.process, stage)
    }

    /// One tick, if this replica has the lock or gets it now.
    pub async fn tick(&self, lock: &mut LoopLock, stage: StageLock) -> Result<Tick, StoreError> {
        let Some(lease) = lock.tick(&self.process).await? else {
            self.publish(stage, &TickReport::default());
            return Ok(Tick::NotOurs);
        };
        let fence = lease.fence();
        match lease.guard(self.work(stage, fence)).await {
            Ok(Ok(report)) => {
                self.process.counts.update(|counted| counted.ticks[stage as usize] += 1);
                Ok(Tick::Done(report))
            }
            Ok(Err(error)) => {
                if journal::loop_refused(stage, &error) {
                    lock.give_up();
                    if stage == StageLock::SnapshotWriter {
                        self.process.counts.update(|counted| counted.snapshots_refused += 1);
                    }
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
        let mut report = TickReport::default();
        match stage {
            StageLock::EngineReconciler => {
                for tenant in self.process.call(FindDue { limit: TENANTS_MAX }).await?.ready {
                    report.tenants_ready += 1;
                    self.process.wake(Wake::RunReady { tenant });
                }
                return Ok(report);
            }
            StageLock::SnapshotWriter => return snapshot::write(&self.process, fence).await,
            StageLock::Retention => report.workers_forgotten = retention::forget_silent(self).await?,
            StageLock::Reconciler
            | StageLock::PendingReplayer
            | StageLock::SlotReconciler
            | StageLock::TimerReconciler => {}
        }
        let mut tenants = EveryTenant::default();
        while let Some(tenant) = tenants.next(&self.process).await? {
            report.tenants += 1;
            if self.scan(stage, &tenant, &mut report).await.is_err() {
                report.tenants_failed += 1;
            }
        }
        self.publish(stage, &report);
        Ok(report)
    }

    /// Repairs what was missed in the rows of one tenant.
    async fn scan(
        &self,
        stage: StageLock,
        tenant: &TenantId,
        report: &mut TickReport,
    ) -> Result<(), StoreError> {
        match stage {
            StageLock::Reconciler => self.end_stale_jobs(tenant, report).await?,
            StageLock::PendingReplayer => self.requeue(tenant, report).await?,
            StageLock::SlotReconciler => slots::repair(self, tenant, report).await?,
            StageLock::TimerReconciler => report.runs_fired += self.fire_timers(tenant).await?,
            StageLock::Retention => retention::clean(self, tenant, report).await?,
            // They do not go through the tenants.
            StageLock::EngineReconciler | StageLock::SnapshotWriter => {}
        }
        Ok(())
    }

    async fn end_stale_jobs(&self, tenant: &TenantId, report: &mut TickReport) -> Result<(), StoreError> {
        let expired = ListExpiredLeases { tenant: tenant.clone(), limit: ROWS_MAX };
        for (_, lease) in self.process.call(expired).await? {
            report.stale[lease.stale_state() as usize] += 1;
        }
        for _ in 0..EXPIRE_STEPS_MAX {
            let lost = self.expire_leases(tenant).await?;
            report.jobs_lost += lost;
            if lost < ROWS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Announces waiting jobs again, should their wake-up have been lost, and returns orphans to their queue.
    async fn requeue(&self, tenant: &TenantId, report: &mut TickReport) -> Result<(), StoreError> {
        let requeue = RequeueJobs { tenant: tenant.clone(), limit: JOBS_A_SCAN };
        let requeued = self.process.call(requeue).await?;
        report.jobs_announced += requeued.waiting.len();
        report.jobs_requeued += requeued.put_back.len();
        self.process.counts.update(|counted| counted.orphans_replayed += requeued.put_back.len() as u64);
        self.process.announce_jobs(tenant, requeued.waiting);
        Ok(())
    }

    /// Shows what the last scan found; all zero if another replica scans now.
    fn publish(&self, stage: StageLock, report: &TickReport) {
        let TickReport { slots_drifted, slots_repaired, stale, .. } = *report;
        match stage {
            StageLock::Reconciler => {
                self.process.counts.update(|counted| counted.stale_jobs = stale.map(|jobs| jobs as u64));
            }
            StageLock::SlotReconciler => {
                self.process.counts.update(|counted| counted.slot_drift = slots_drifted as u64);
                if slots_drifted > 0 {
                    warn!(found = slots_drifted, repaired = slots_repaired, "slots and runs did not agree");
                }
            }
            StageLock::PendingReplayer
            | StageLock::EngineReconciler
            | StageLock::TimerReconciler
            | StageLock::Retention
            | StageLock::SnapshotWriter => {}
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
                let failed = report.tenants_failed;
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
