//! Who may write: workers claim jobs and report on them, each call under its fence.

use std::time::Duration;

use futures_util::future::select_all;
use interlock_backend::jobs::{Claim, Claimed, Heartbeat, Progress, Report};
use interlock_backend::{StoreError, Wake};
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, JobId, TenantId};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::journal;
use crate::service::Control;
use crate::wakeups::Signal;

impl Control {
    /// Claims jobs, waiting up to `wait` for the first. Woken when work arrives; the poll is only for lost wake-ups.
    pub async fn claim(&self, claim: Claim, wait: Duration) -> Result<Vec<Claimed>, StoreError> {
        self.claim_until(claim, wait, &CancellationToken::new()).await
    }

    /// The same; `stop` ends the waiting, but never a claim that the store may have answered with jobs.
    pub async fn claim_until(
        &self,
        claim: Claim,
        wait: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Claimed>, StoreError> {
        let deadline = Instant::now() + wait;
        // Made before the first look, so that what arrives after the look is heard.
        let waiters: Vec<_> = claim
            .topics
            .iter()
            .map(|topic| self.wakeups.waiter(Signal::JobsReady(claim.tenant.clone(), topic.clone())))
            .collect();
        let mut has_waited_in_vain = false;
        let claim = self.admitted(claim);
        loop {
            let claimed = self.claim_now(claim.clone()).await?;
            if has_waited_in_vain {
                // A word about a job that requires something may have woken somebody who is not capable of it.
                for found in claimed.iter().filter(|found| found.job.meta.requires.is_empty()) {
                    self.found_unsaid(&claim.tenant, &found.job.topic);
                }
            }
            if claimed.len() == claim.jobs_max {
                // There may be more than one could carry. Wake-ups that meet become one, so it is passed on.
                for waiter in &waiters {
                    waiter.notify_one();
                }
            }
            if !claimed.is_empty() || Instant::now() >= deadline || stop.is_cancelled() {
                return Ok(claimed);
            }
            let heard = select_all(waiters.iter().map(|waiter| Box::pin(waiter.notified())));
            let look_again = deadline.min(Instant::now() + self.settings.claim_poll);
            // Woken or not, the next look tells; stopped, there is none.
            match stop.run_until_cancelled(timeout_at(look_again, heard)).await {
                None => return Ok(Vec::new()),
                Some(told) => has_waited_in_vain = told.is_err(),
            }
        }
    }

    /// The claim without topics whose pools the worker does not fit in.
    fn admitted(&self, mut claim: Claim) -> Claim {
        let Claim { topics, capabilities, .. } = &mut claim;
        topics.retain(|topic| self.settings.pools.admit(topic, Edge::Http, None, capabilities));
        claim
    }

    pub async fn heartbeat(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
    ) -> Result<Heartbeat, StoreError> {
        let answer = self.store.heartbeat(tenant, job, fence).await;
        answer.inspect_err(|error| journal::refused(tenant, job, error))
    }

    pub async fn progress(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        progress: Progress,
    ) -> Result<(), StoreError> {
        let told = self.store.progress(tenant, job, fence, progress).await;
        told.inspect_err(|error| journal::refused(tenant, job, error))?;
        self.wake(Wake::RunChanged { run: job.run });
        Ok(())
    }

    /// Answers as soon as the store has the result; the run goes on afterwards.
    pub async fn report(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        outcome: JobOutcome,
    ) -> Result<Report, StoreError> {
        let report = self.store.report(tenant, job, fence, outcome).await;
        let report = report.inspect_err(|error| journal::refused(tenant, job, error))?;
        if report == Report::Recorded {
            journal::recorded(tenant, job, fence);
        }
        self.wake(Wake::RunReady { tenant: tenant.clone() });
        Ok(report)
    }

    pub async fn cancel_job(&self, tenant: &TenantId, job: &JobId, by: &str) -> Result<JobState, StoreError> {
        let state = self.store.cancel_job(tenant, job, by).await?;
        self.wake(Wake::JobsRevoked { jobs: vec![job.clone()] });
        self.drive(tenant, job.run).await?;
        Ok(state)
    }
}
