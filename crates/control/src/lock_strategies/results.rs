//! Results under the lock of their run: a delivery that finds the run busy comes again, by policy, and becomes a dead
//! letter in the end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::deliveries::{DeferOutcome, DeferResult, DeliverResult, DeliveryOutcome};
use interlock_backend::jobs::LeaseTerm;
use interlock_backend::verbs::{ExtendJobLease, ReadJob};
use interlock_backend::{StoreError, Wake};
use interlock_model::JobId;
use interlock_model::contention::Arm;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::job::JobOutcome;
use interlock_model::retry::Seed;
use interlock_model::time::millis;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use crate::contention::Contention;
use crate::dead_letters::DeadLetters;
use crate::engine::{Engine, ResultArrival};
use crate::journal;
use crate::process::Process;
use crate::results::{DeliverUnderLock, Delivered, Delivery, RUN_BUSY, Results};
use crate::wakeups::Signal;

/// How often a result that waits for its run polls, should a wake-up be lost.
const POLL: Duration = Duration::from_millis(50);

/// Delivers results together with their runs, and keeps those whose run is busy.
pub struct ResultsUnderLock {
    pub(super) process: Arc<Process>,
    pub(super) contention: Arc<Contention>,
    pub(super) engine: Arc<Engine>,
    pub(super) dead_letters: Arc<DeadLetters>,
    /// For results that need no run.
    pub(super) inbox: Results,
}

impl ResultsUnderLock {
    pub fn new(
        process: Arc<Process>,
        contention: Arc<Contention>,
        engine: Arc<Engine>,
        dead_letters: Arc<DeadLetters>,
    ) -> Self {
        let inbox = Results { process: process.clone(), under_lock: None };
        Self { process, contention, engine, dead_letters, inbox }
    }

    async fn deliver_alone(&self, delivery: &Delivery) -> Result<Delivered, StoreError> {
        let Delivery { tenant, job, fence, edge, outcome, .. } = delivery.clone();
        let request = self.engine.lease_request();
        let (holder, lease) = (self.process.instance.clone(), request.lease);
        let deliver = DeliverResult { tenant, job, fence, edge, outcome, holder, lease };
        let (tenant, job) = (&delivery.tenant, &delivery.job);
        let acquired = self.process.call(deliver).await;
        match acquired.inspect_err(|error| journal::refused(tenant, job, error))? {
            DeliveryOutcome::Busy => Ok(Delivered::Busy),
            DeliveryOutcome::AlreadyRecorded => {
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
                Ok(Delivered::AlreadyRecorded)
            }
            // A suspect, which is tried alone.
            DeliveryOutcome::Posted => {
                journal::recorded(tenant, job, delivery.fence);
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
                Ok(Delivered::Recorded)
            }
            DeliveryOutcome::Recorded(acquired) => {
                journal::recorded(tenant, job, delivery.fence);
                let Delivery { attempt, waited, .. } = *delivery;
                let arrival = ResultArrival { job: job.clone(), attempt, waited };
                if let Err(error) = self.engine.advance_with(*acquired, request, &arrival).await {
                    // The store has the result, and the next holder of the run takes it into account.
                    warn!(%tenant, run = %job.run, %job, %error, "turn failed; the run stays ready");
                    self.process.wake(Wake::RunReady { tenant: tenant.clone() });
                }
                Ok(Delivered::Recorded)
            }
        }
    }

    /// The worker has reported: its lease must not expire while the result waits here.
    async fn extend_lease(&self, delivery: &Delivery, patience: Instant) -> Result<(), StoreError> {
        let (tenant, job) = (delivery.tenant.clone(), delivery.job.clone());
        let wait = patience.saturating_duration_since(Instant::now()) + self.engine.lease_request().lease;
        let term = Some(LeaseTerm::For(wait));
        // A job that was cancelled meanwhile is refused at the next try.
        let extend = ExtendJobLease { tenant, job, fence: delivery.fence, term };
        self.process.call(extend).await.map(drop)
    }

    /// The run was busy at this delivery: keeps the result for another, or gives it up after the last.
    pub(super) async fn defer(&self, delivery: &Delivery) -> Result<(), StoreError> {
        if delivery.attempt >= self.process.settings.deliveries_max {
            return self.give_up(delivery).await;
        }
        let Delivery { tenant, job, fence, edge, outcome, attempt, waited } = delivery.clone();
        let (arm, delay) = self.delay_after(&job, attempt);
        let lease = self.engine.lease_request().lease;
        let defer =
            DeferResult { tenant, job, fence, edge, outcome, deliveries: attempt, waited, delay, lease };
        if self.process.call(defer).await? == DeferOutcome::AlreadyRecorded {
            return Ok(());
        }
        self.contention.tally.busy(arm, (attempt, waited), delay);
        self.process.due_in(delay);
        Ok(())
    }

    fn delay_after(&self, job: &JobId, attempt: u32) -> (Arm, Duration) {
        let (arm, tuning) = self.contention.lock_busy(job.run);
        let seed = Seed::of_result(job);
        let delay = tuning.policy.delay_of(attempt, seed);
        debug!(
            run = %job.run, %job, attempt, delay_ms = millis(delay), seed = seed.number(),
            policy = %tuning.policy, arm = arm.name(), "run busy"
        );
        (arm, delay)
    }

    /// Makes a dead letter of a result that found its run busy at every delivery, and fails its job.
    async fn give_up(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let Delivery { tenant, job, fence, attempt, .. } = delivery;
        let view = self.process.call(ReadJob { tenant: tenant.clone(), job: job.clone() }).await?;
        // Another delivery succeeded, or the run is deleted.
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
            buried_at: self.process.now(),
            // The worker's report was acknowledged.
            result: Some(delivery.outcome.clone()),
        };
        self.dead_letters.add(tenant, &letter).await?;
        journal::buried(tenant, &letter);
        let error = format!("the result could not be handled in {attempt} deliveries: {RUN_BUSY}");
        let failed = JobOutcome::failed(error, true);
        match self.inbox.report(tenant, job, (*fence, None), failed).await {
            // If it ended meanwhile, the dead letter says what came of its result.
            Ok(_) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl DeliverUnderLock for ResultsUnderLock {
    async fn deliver(&self, delivery: &Delivery) -> Result<Delivered, StoreError> {
        // With a whole turn in it, the future is large.
        let alone = Box::pin(self.deliver_alone(delivery));
        let delivered = self.engine.try_alone(delivery.job.run, alone).await;
        delivered.unwrap_or(Ok(Delivered::Busy))
    }

    /// Waits a while for the run, then defers the result.
    async fn submit(&self, mut delivery: Delivery) -> Result<(), StoreError> {
        let began = Instant::now();
        let patience = began + self.contention.lock_busy(delivery.job.run).1.max_wait();
        let changed = self.process.wakeups.waiter(Signal::RunChanged(delivery.job.run));
        let mut is_extended = false;
        loop {
            // Before the try, so that a change during it is not missed.
            let mut woken = pin!(changed.notified());
            woken.as_mut().enable();
            delivery.waited = began.elapsed();
            if self.deliver(&delivery).await? != Delivered::Busy {
                return Ok(());
            }
            if Instant::now() >= patience {
                return self.defer(&delivery).await;
            }
            if !is_extended {
                self.extend_lease(&delivery, patience).await?;
                is_extended = true;
            }
            let _ = timeout_at(patience.min(Instant::now() + POLL), woken).await;
        }
    }

    fn count_busy(&self, job: &JobId, attempt: u32, waited: Duration) -> Duration {
        let (arm, delay) = self.delay_after(job, attempt);
        self.contention.tally.busy(arm, (attempt, waited), delay);
        delay
    }
}
