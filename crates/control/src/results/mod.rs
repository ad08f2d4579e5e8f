//! Workers claim jobs and report on them, each call under the fence of its lease.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use interlock_backend::jobs::{Claim, Claimed, Heartbeat, LeaseTerm, Progress, Report};
use interlock_backend::verbs::{ExtendJobLease, RecordProgress, RecordResult};
use interlock_backend::{StoreError, Wake};
use interlock_model::job::JobOutcome;
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, JobId, TenantId, Topic};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::journal;
use crate::lease::{self, Loss, Renewal, Term};
use crate::process::Process;
use crate::wakeups::Signal;

/// One delivery of a worker's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub tenant: TenantId,
    pub job: JobId,
    pub fence: Fence,
    /// The edge that it came over; none if that was checked before.
    pub edge: Option<Edge>,
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
    /// The run is busy. Nothing was done.
    Busy,
}

/// Why a result was not delivered, in dead letters and logs.
pub const RUN_BUSY: &str = "the run was busy";

/// A strategy that takes a result only together with its run.
#[async_trait]
pub trait DeliverUnderLock: Send + Sync {
    /// Delivers a result once, without waiting for its run.
    async fn deliver(&self, delivery: &Delivery) -> Result<Delivered, StoreError>;

    /// Delivers a result that comes only once. The store has it when this returns.
    async fn submit(&self, delivery: Delivery) -> Result<(), StoreError>;

    /// Counts a delivery that found its run busy. Returns how long to wait before the next.
    fn count_busy(&self, job: &JobId, attempt: u32, waited: Duration) -> Duration;
}

/// Hands out jobs and takes their results. By default a result goes to the inbox of its run, even while the run is held.
pub struct Results {
    pub(crate) process: Arc<Process>,
    pub(crate) under_lock: Option<Arc<dyn DeliverUnderLock>>,
}

impl Results {
    /// Claims jobs of an HTTP worker, waiting up to `wait` for the first. Woken when work arrives; the poll is only for
    /// lost wake-ups. `stop` ends the waiting, but never a claim that the store may have answered with jobs.
    pub async fn claim(
        &self,
        mut claim: Claim,
        wait: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Claimed>, StoreError> {
        let deadline = Instant::now() + wait;
        // Made before the first look, so that no wake-up is missed.
        let waiters: Vec<_> = claim
            .topics
            .iter()
            .map(|topic| self.process.wakeups.waiter(Signal::JobsReady(claim.tenant.clone(), topic.clone())))
            .collect();
        let mut was_woken = true;
        let Claim { topics, capabilities, .. } = &mut claim;
        topics.retain(|topic| self.process.settings.pools.admit(topic, Edge::Http, None, capabilities));
        loop {
            let claimed = self.claim_now(claim.clone()).await?;
            if !was_woken && self.process.bus.is_connected() {
                // The wake-up of a job with requirements may have gone to a worker without the capability.
                for found in claimed.iter().filter(|found| found.job.meta.requires.is_empty()) {
                    self.process.wakeups.orphans.found(&claim.tenant, &found.job.topic);
                }
            }
            if claimed.len() == claim.jobs_max {
                // There may be more than this worker could carry. Wake-ups that meet become one, so it is passed on.
                for waiter in &waiters {
                    waiter.notify_one();
                }
            }
            if !claimed.is_empty() || Instant::now() >= deadline || stop.is_cancelled() {
                return Ok(claimed);
            }
            let woken = select_all(waiters.iter().map(|waiter| Box::pin(waiter.notified())));
            let poll_at = deadline.min(Instant::now() + self.process.settings.claim_poll);
            match stop.run_until_cancelled(timeout_at(poll_at, woken)).await {
                None => return Ok(Vec::new()),
                Some(woken) => was_woken = woken.is_ok(),
            }
        }
    }

    /// Claims what is queued now.
    pub async fn claim_now(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let tenant = claim.tenant.clone();
        let claimed = self.process.call(claim).await?;
        journal::claimed(&tenant, &claimed);
        for Claimed { job, lease, queued_at } in &claimed {
            let waited = lease.claimed_at.since(*queued_at).as_secs_f64();
            self.process.counts.update(|counted| counted.job_lock_wait.observe(waited * 1_000.0));
            self.process.traces.claimed((&tenant, &job.id), job.trace);
            self.process.due_in(lease.ttl);
        }
        Ok(claimed)
    }

    /// Counts orphans: a poll for a NATS worker with free capacity found jobs of `found` among `topics`.
    pub fn polled(&self, tenant: &TenantId, topics: &[Topic], found: &[Topic]) {
        // While the bus is unreachable no wake-up arrives, and nothing is wrong with the sender.
        if self.process.bus.is_connected() {
            self.process.wakeups.orphans.polled(tenant, topics, found);
        }
    }

    pub async fn heartbeat(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
    ) -> Result<Heartbeat, StoreError> {
        self.extend_lease(tenant, job, fence, None).await
    }

    /// Runs `work` under the lease of a claimed job, and renews the lease meanwhile. The work is dropped before the store
    /// can give the job to another; what it writes carries the fence of its lease.
    pub async fn guard_job<T>(
        &self,
        (tenant, job, fence): (&TenantId, &JobId, Fence),
        term: Term,
        work: impl Future<Output = T>,
    ) -> Result<T, Loss> {
        let renew = || async move {
            let extend = ExtendJobLease { tenant: tenant.clone(), job: job.clone(), fence, term: None };
            match self.process.call(extend).await {
                Ok(Heartbeat::Extended { lease, .. }) => Renewal::Extended(lease),
                Ok(Heartbeat::CancelRequested) => Renewal::Refused("the job was cancelled".to_owned()),
                Err(error) => lease::renewal(Err(error)),
            }
        };
        lease::guard(&self.process, term, renew, work).await
    }

    /// Extends the lease of a job by `term`, or by what it was claimed with.
    pub async fn extend_lease(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: Option<LeaseTerm>,
    ) -> Result<Heartbeat, StoreError> {
        let extend = ExtendJobLease { tenant: tenant.clone(), job: job.clone(), fence, term };
        let extended = self.process.call(extend).await;
        extended.inspect_err(|error| journal::refused(tenant, job, error))
    }

    pub async fn progress(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        progress: Progress,
    ) -> Result<(), StoreError> {
        let record = RecordProgress { tenant: tenant.clone(), job: job.clone(), fence, progress };
        let recorded = self.process.call(record).await;
        recorded.inspect_err(|error| journal::refused(tenant, job, error))?;
        self.process.wake(Wake::RunChanged { run: job.run });
        Ok(())
    }

    /// Takes the result of an HTTP worker, which brings it once. The store has it when this returns.
    pub async fn submit(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        outcome: JobOutcome,
    ) -> Result<(), StoreError> {
        let Some(under_lock) = &self.under_lock else {
            return self.report(tenant, job, (fence, Some(Edge::Http)), outcome).await.map(drop);
        };
        let (tenant, job) = (tenant.clone(), job.clone());
        let edge = Some(Edge::Http);
        let delivery = Delivery { tenant, job, fence, edge, outcome, attempt: 1, waited: Duration::ZERO };
        under_lock.submit(delivery).await
    }

    /// Delivers the result of a NATS worker once, without waiting for its run.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<Delivered, StoreError> {
        if let Some(under_lock) = &self.under_lock {
            return under_lock.deliver(delivery).await;
        }
        let Delivery { tenant, job, fence, edge, outcome, .. } = delivery;
        match self.report(tenant, job, (*fence, *edge), outcome.clone()).await? {
            Report::Recorded => Ok(Delivered::Recorded),
            Report::AlreadyRecorded => Ok(Delivered::AlreadyRecorded),
        }
    }

    /// Counts a delivery that found its run busy. Returns how long to wait before the next; none without a strategy
    /// under which runs are busy.
    pub fn count_busy(&self, job: &JobId, attempt: u32, waited: Duration) -> Option<Duration> {
        Some(self.under_lock.as_ref()?.count_busy(job, attempt, waited))
    }

    /// Puts a result into the inbox of its run, and returns as soon as the store has it; the run advances afterwards.
    pub async fn report(
        &self,
        tenant: &TenantId,
        job: &JobId,
        (fence, edge): (Fence, Option<Edge>),
        outcome: JobOutcome,
    ) -> Result<Report, StoreError> {
        let spends = outcome.usage().is_some_and(|usage| !usage.is_empty());
        let record = RecordResult { tenant: tenant.clone(), job: job.clone(), fence, edge, outcome };
        let report = self.process.call(record).await;
        let report = report.inspect_err(|error| journal::refused(tenant, job, error))?;
        if report == Report::Recorded {
            journal::recorded(tenant, job, fence);
            if spends {
                // What it reserved and did not spend is free for jobs that wait for it.
                self.process.wake(Wake::JobsHeld { tenant: tenant.clone() });
            }
        }
        self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        Ok(report)
    }

    /// Releases a job that never reached its worker. It is dispatched again, and its step is charged no retry.
    pub async fn release(&self, tenant: &TenantId, job: &JobId, fence: Fence) -> Result<(), StoreError> {
        self.report(tenant, job, (fence, None), JobOutcome::Lost).await.map(drop)
    }

    /// Counts a result from NATS that came under a stale fence.
    pub fn count_refused(&self) {
        self.process.counts.update(|counted| counted.results_refused += 1);
    }
}
