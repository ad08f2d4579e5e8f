//! What people do to runs: approve, reject, cancel, delete. Each advances the run at once instead of waiting for the engine.

use std::sync::Arc;

use interlock_backend::runs::CancelOutcome;
use interlock_backend::verbs::{CancelJob, ReadJob, ReadRun, RequestCancel, ResolveApproval};
use interlock_backend::{StoreError, Wake};
use interlock_model::approval::{Decision, Resolution};
use interlock_model::job::JobState;
use interlock_model::{JobId, RunId, TenantId};
use tokio::time::{Instant, timeout_at};

use crate::engine::Engine;
use crate::process::Process;
use crate::run_deletion::RunDeletion;
use crate::wakeups::Signal;

pub struct Runs {
    pub(crate) process: Arc<Process>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) deletion: RunDeletion,
}

impl Runs {
    /// Records the verdict of a person and advances the run with it.
    pub async fn resolve_approval(
        &self,
        tenant: &TenantId,
        job: &JobId,
        decision: Decision,
    ) -> Result<Resolution, StoreError> {
        let resolve = ResolveApproval { tenant: tenant.clone(), job: job.clone(), decision };
        let resolution = self.process.call(resolve).await?;
        self.announce_released(tenant, job).await;
        self.engine.drive(tenant, job.run).await?;
        Ok(resolution)
    }

    /// A job that waited for the verdict is in its queue now. A lost wake-up costs a worker one poll.
    async fn announce_released(&self, tenant: &TenantId, job: &JobId) {
        let read = ReadJob { tenant: tenant.clone(), job: job.clone() };
        let Ok(Some(found)) = self.process.call(read).await else { return };
        if found.state == JobState::Queued {
            self.process.announce_jobs(tenant, [found.job.new.topic]);
        } else if found.state == JobState::Held {
            // Its budget is next.
            self.process.wake(Wake::JobsHeld { tenant: tenant.clone() });
        }
    }

    pub async fn cancel_job(&self, tenant: &TenantId, job: &JobId, by: &str) -> Result<JobState, StoreError> {
        let cancel = CancelJob { tenant: tenant.clone(), job: job.clone(), by: by.to_owned() };
        let state = self.process.call(cancel).await?;
        self.process.wake(Wake::JobsRevoked { jobs: vec![job.clone()] });
        self.engine.drive(tenant, job.run).await?;
        Ok(state)
    }

    /// Requests the end of the run and waits a while for it: another replica may hold the run.
    pub async fn cancel(&self, tenant: &TenantId, run: RunId, by: &str) -> Result<(), StoreError> {
        let changed = self.process.wakeups.waiter(Signal::RunChanged(run));
        let request = RequestCancel { tenant: tenant.clone(), run, by: by.to_owned() };
        if self.process.call(request).await? == CancelOutcome::AlreadyEnded {
            return Ok(());
        }
        self.engine.drive(tenant, run).await?;
        let (mut is_handed_on, deadline) = (false, Instant::now() + self.process.settings.cancel_wait);
        while Instant::now() < deadline {
            let heard = changed.notified();
            let found = self.process.call(ReadRun { tenant: tenant.clone(), run }).await?;
            if found.is_none_or(|run| run.head.status.is_final()) {
                break;
            }
            if !is_handed_on {
                // A suspect is left to the task that tries those.
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
                is_handed_on = true;
            }
            let poll_at = deadline.min(Instant::now() + self.process.settings.poll);
            let _ = timeout_at(poll_at, heard).await;
        }
        Ok(())
    }

    /// Deletes the run with everything of it but its idempotency key.
    pub async fn delete(&self, tenant: &TenantId, run: RunId) -> Result<(), StoreError> {
        self.deletion.delete(tenant, run).await
    }
}
