//! A person's verdict.

use interlock_backend::StoreError;
use interlock_model::approval::{Decision, Resolution};
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
        self.drive(tenant, job.run).await?;
        Ok(resolution)
    }
}
