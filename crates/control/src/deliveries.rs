//! Results under the lock of their run: who finds the run busy comes again, by policy, and is given up in the end.

use std::pin::pin;
use std::time::Duration;

use interlock_backend::deliveries::{PutOff, PutOffAnswer, PutOffResult, ReportAndTake, ReportTaken};
use interlock_backend::jobs::{LeaseTerm, Report};
use interlock_backend::{StoreError, Wake};
use interlock_model::contention::{Arm, RunStrategy};
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::job::JobOutcome;
use interlock_model::retry::Seed;
use interlock_model::{Fence, JobId, TenantId};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use crate::service::Control;
use crate::wakeups::Signal;

/// How often a result that waits for its run looks by itself, should a wake-up be lost.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One delivery of a worker's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    pub outcome: JobOutcome,
    /// Which delivery it is, from 1.
    pub attempt: u32,
    /// How long ago the result came for the first time.
    pub waited: Duration,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Delivered {
    Recorded,
    /// The same was recorded before.
    AlreadyRecorded,
    /// Somebody is at the run. Nothing was done.
    Busy,
}

impl Control {
    /// Delivers a result once, without waiting for its run.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<Delivered, StoreError> {
        match self.contention.run_strategy() {
            RunStrategy::Inbox => {
                let Delivery { tenant, job, fence, outcome, .. } = delivery;
                match self.report(tenant, job, *fence, outcome.clone()).await? {
                    Report::Recorded => Ok(Delivered::Recorded),
                    Report::AlreadyRecorded => Ok(Delivered::AlreadyRecorded),
                }
            }
            RunStrategy::Lock => {
                // With a whole turn in it, the future is large.
                let alone = Box::pin(self.deliver_alone(delivery));
                let delivered = self.run_locks.alone_at_once(delivery.job.run, alone).await;
                delivered.unwrap_or(Ok(Delivered::Busy))
            }
        }
    }

    async fn deliver_alone(&self, delivery: &Delivery) -> Result<Delivered, StoreError> {
        let Delivery { tenant, job, fence, outcome, .. } = delivery.clone();
        let asked = self.ask_for_runs();
        let (holder, lease) = (self.instance.clone(), asked.lease);
        let report = ReportAndTake { tenant, job, fence, outcome, holder, lease };
        match self.store.report_and_take(&report).await? {
            ReportTaken::Busy => Ok(Delivered::Busy),
            ReportTaken::AlreadyRecorded => {
                self.wake(Wake::RunReady { tenant: report.tenant });
                Ok(Delivered::AlreadyRecorded)
            }
            ReportTaken::Recorded(taken) => {
                if let Err(error) = self.turn_and_more(*taken, asked, Some(delivery)).await {
                    // The store has the result, and whoever takes the run next takes it into account.
                    warn!(job = %report.job, %error, "a turn was not made; the run stays ready");
                    self.wake(Wake::RunReady { tenant: report.tenant });
                }
                Ok(Delivered::Recorded)
            }
        }
    }

    /// Takes a result that came by itself, and that nobody would bring again: waits a while for its run, then puts it off.
    /// The store has it when this returns.
    pub async fn hand_in(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        outcome: JobOutcome,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        let patience = began + self.contention.lock_busy(job.run).1.max_wait();
        let (tenant, job) = (tenant.clone(), job.clone());
        let mut delivery = Delivery { tenant, job, fence, outcome, attempt: 1, waited: Duration::ZERO };
        let changed = self.wakeups.waiter(Signal::RunChanged(delivery.job.run));
        let mut is_held = false;
        loop {
            // Before the try, so that what happens during it is heard.
            let mut heard = pin!(changed.notified());
            heard.as_mut().enable();
            delivery.waited = began.elapsed();
            if self.deliver(&delivery).await? != Delivered::Busy {
                return Ok(());
            }
            if Instant::now() >= patience {
                return self.put_off(&delivery).await;
            }
            if !is_held {
                self.hold_while_waiting(&delivery, patience).await?;
                is_held = true;
            }
            let _ = timeout_at(patience.min(Instant::now() + LOOK_AGAIN), heard).await;
        }
    }

    /// The worker has said all that it has to say: its lease must not run out while its word waits here.
    async fn hold_while_waiting(&self, delivery: &Delivery, patience: Instant) -> Result<(), StoreError> {
        let Delivery { tenant, job, fence, .. } = delivery;
        let term = patience.saturating_duration_since(Instant::now()) + self.ask_for_runs().lease;
        // A job that was cancelled meanwhile is refused at the next try.
        self.store.hold(tenant, job, *fence, LeaseTerm::For(term)).await.map(drop)
    }

    /// Delivers a result again whose time has come.
    pub(crate) async fn deliver_again(&self, tenant: &TenantId, result: PutOffResult) {
        let PutOffResult { job, fence, outcome, deliveries, waited } = result;
        let attempt = deliveries.saturating_add(1);
        let delivery = Delivery { tenant: tenant.clone(), job, fence, outcome, attempt, waited };
        let delivered = match self.deliver(&delivery).await {
            Ok(Delivered::Busy) => self.put_off(&delivery).await,
            other => other.map(|_| ()),
        };
        match delivered {
            Ok(()) => {}
            Err(error @ (StoreError::Fenced { .. } | StoreError::NotFound { .. })) => {
                debug!(job = %delivery.job, %error, "a result that was put off counts no more");
            }
            Err(error) => {
                warn!(job = %delivery.job, %error, "a result could not be delivered; it is tried again");
            }
        }
    }

    /// The run was busy at this delivery: keeps the result for another, or gives it up after the last.
    async fn put_off(&self, delivery: &Delivery) -> Result<(), StoreError> {
        if delivery.attempt >= self.settings.deliveries_max {
            return self.give_up(delivery).await;
        }
        let Delivery { tenant, job, fence, outcome, attempt, waited } = delivery.clone();
        let (arm, delay) = self.delay_after(&job, attempt);
        let lease = self.ask_for_runs().lease;
        let kept = PutOff { tenant, job, fence, outcome, deliveries: attempt, waited, delay, lease };
        if self.store.put_off(&kept).await? == PutOffAnswer::AlreadyRecorded {
            return Ok(());
        }
        self.contention.tally().busy(arm, (attempt, delivery.waited), delay);
        self.put_off_results.make(Instant::now() + delay);
        Ok(())
    }

    /// Counts a delivery, of a result that came `waited` ago, that found its run busy, and tells when the next is to come.
    pub fn found_busy(&self, job: &JobId, attempt: u32, waited: Duration) -> Duration {
        let (arm, delay) = self.delay_after(job, attempt);
        self.contention.tally().busy(arm, (attempt, waited), delay);
        delay
    }

    fn delay_after(&self, job: &JobId, attempt: u32) -> (Arm, Duration) {
        let (arm, tuning) = self.contention.lock_busy(job.run);
        let seed = Seed::of_result(job);
        let delay = tuning.policy.delay_of(attempt, seed);
        debug!(
            %job, attempt, delay_ms = interlock_model::time::millis(delay), seed = seed.number(),
            policy = %tuning.policy, arm = arm.name(), "the run of a result is busy"
        );
        (arm, delay)
    }

    /// Buries a result that found its run busy at every delivery, and fails its job.
    async fn give_up(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let Delivery { tenant, job, fence, attempt, .. } = delivery;
        let view = self.store.job(tenant, job).await?;
        // Somebody else has delivered it, or its run is gone: there is nothing to be told about.
        if view.as_ref().is_none_or(|view| view.job.end.is_some()) {
            return Ok(());
        }
        let letter = DeadLetter {
            job: job.clone(),
            topic: view.map(|view| view.job.new.topic),
            code: LetterCode::ResultUnhandled,
            reason: "the result could not be handled: its run was busy at every delivery".to_owned(),
            attempts: *attempt,
            last_error: Some(RUN_BUSY.to_owned()),
            buried_at: self.clock.now(),
            // The worker was told that it is kept.
            result: Some(delivery.outcome.clone()),
        };
        self.bury(tenant, &letter).await?;
        warn!(%job, deliveries = attempt, "a result became a dead letter: its run was busy");
        let error = format!("the result could not be handled in {attempt} deliveries: {RUN_BUSY}");
        let failed = JobOutcome::Failed { error, retryable: true };
        match self.report(tenant, job, *fence, failed).await {
            // If it ended meanwhile, the letter tells what came of its result.
            Ok(_) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Why a result is put off, for letters and logs.
pub const RUN_BUSY: &str = "the run was busy";
