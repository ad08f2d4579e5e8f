//! Deletes a run with everything of it but its idempotency key.

use std::sync::Arc;

use interlock_backend::mailbox::Mailbox;
use interlock_backend::verbs::DeleteRun;
use interlock_backend::{StoreError, Wake};
use interlock_model::{RunId, TenantId};

use crate::process::Process;

#[derive(Clone)]
pub(crate) struct RunDeletion {
    pub(crate) process: Arc<Process>,
    /// Where inputs of NATS workers are, if the backend can have such workers.
    pub(crate) mailbox: Option<Arc<dyn Mailbox>>,
}

impl RunDeletion {
    pub(crate) async fn delete(&self, tenant: &TenantId, run: RunId) -> Result<(), StoreError> {
        let jobs = self.process.call(DeleteRun { tenant: tenant.clone(), run }).await?;
        if let Some(mailbox) = &self.mailbox
            && let Err(error) = mailbox.forget(run, &jobs).await
        {
            // The run is deleted, which is what the caller wants; no path leads to what is left in the mailbox.
            tracing::warn!(%tenant, %run, %error, "inputs and results of a deleted run not removed");
        }
        self.process.wake(Wake::RunChanged { run });
        // Its slots may have gone to runs that waited for them.
        self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        Ok(())
    }
}
