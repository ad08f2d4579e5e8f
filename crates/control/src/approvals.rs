//! A person's verdict.

use interlock_backend::StoreError;
use interlock_model::approval::{Decision, Resolution};
use interlock_model::job::JobState;
use interlock_model::{JobId, TenantId};

use crate::service::Control;

impl Control {
    /// Records the verdict and lets the run go on with it.
    pub async fn resolve_approval(
        &self,
        tenant: &TenantId,
        job: &JobId,
        decision: Decision,
    ) -> Result<Resolution, StoreError> {
        let resolution = self.store.resolve(tenant, job, decision).await?;
        self.announce_released(tenant, job).await;
        self.drive(tenant, job.run).await?;
        Ok(resolution)
    }

    /// A dispatch that waited for the verdict is in its queue with it.
    async fn announce_released(&self, tenant: &TenantId, job: &JobId) {
        // Without this wake-up a waiting worker finds it at its next look.
        let Ok(Some(found)) = self.store.job(tenant, job).await else { return };
        if found.state == JobState::Queued {
            self.announce_jobs(tenant, vec![found.job.new.topic]);
        }
    }
}
