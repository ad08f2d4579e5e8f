//! What operators write down: workflows, and what tenants may use.

use std::sync::Arc;

use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{DeleteWorkflow, SaveWorkflow, SetLimits};
use interlock_backend::{StoreError, Wake};
use interlock_model::workflow::{InvalidWorkflow, Workflow, WorkflowDocument};
use interlock_model::{TenantId, WorkflowId};

use crate::process::Process;
use crate::system_limits::SystemLimits;

/// Why a document was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error(transparent)]
    Invalid(#[from] InvalidWorkflow),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Saves and deletes documents, and wakes the replicas that keep copies of them.
pub struct Documents {
    pub(crate) process: Arc<Process>,
    pub(crate) system: Arc<SystemLimits>,
}

impl Documents {
    /// Checks the document and keeps it as the next version of its workflow. A document without an id gets one.
    pub async fn save_workflow(
        &self,
        tenant: &TenantId,
        document: WorkflowDocument,
    ) -> Result<(WorkflowId, u32), SaveError> {
        let id = match &document.id {
            Some(id) => id.clone(),
            None => self
                .process
                .identity
                .run_id(self.process.now())
                .to_string()
                .parse()
                .expect("a run id makes a name"),
        };
        let document = WorkflowDocument { id: Some(id.clone()), ..document }.with_defaults();
        Workflow::compile(id.clone(), 0, &document)?;
        let save = SaveWorkflow { tenant: tenant.clone(), id: id.clone(), document };
        let version = self.process.call(save).await?;
        self.process.wake(Wake::WorkflowChanged { tenant: tenant.clone(), workflow: id.clone() });
        Ok((id, version))
    }

    /// Refuses new starts. Runs that have begun go on with their version.
    pub async fn delete_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<(), StoreError> {
        self.process.call(DeleteWorkflow { tenant: tenant.clone(), id: id.clone() }).await?;
        self.process.wake(Wake::WorkflowChanged { tenant: tenant.clone(), workflow: id.clone() });
        Ok(())
    }

    /// Replaces what is written for the scope. A tenant's own limit is in force everywhere with the answer; the
    /// system's, which other processes may keep, within a second. Runs that wait may have their slots then.
    pub async fn set_limits(&self, set: SetLimits) -> Result<u64, StoreError> {
        let scope = set.scope.clone();
        let revision = self.process.call(set).await?;
        match scope {
            LimitScope::System => self.system.changed().await,
            LimitScope::Tenant(tenant) => self.process.wake(Wake::RunReady { tenant }),
        }
        Ok(revision)
    }
}
