//! Compiled workflows, kept in memory. The store says whether what is kept is still the current version.

use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::verbs::{ReadWorkflow, ReadWorkflowVersion};
use interlock_backend::workflows::WorkflowVersion;
use interlock_backend::{Bus, StoreError, StoreReader, Wake};
use interlock_model::workflow::Workflow;
use interlock_model::{TenantId, WorkflowId};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::bounded::Bounded;
use crate::process::Process;

type Name = (TenantId, WorkflowId);

/// Versions never change, so what is kept is right for ever; which one is current may have changed.
pub struct Definitions {
    store: StoreReader,
    bus: Arc<dyn Bus>,
    compiled: Mutex<Bounded<(Name, u32), Arc<Workflow>>>,
    current: Mutex<Bounded<Name, Arc<Workflow>>>,
}

impl Definitions {
    pub(crate) fn new(process: &Process) -> Self {
        let max = process.settings.definitions_max;
        Self {
            store: process.reader(),
            bus: process.bus.clone(),
            compiled: Mutex::new(Bounded::new(max)),
            current: Mutex::new(Bounded::new(max)),
        }
    }

    /// The workflow was saved or deleted on some replica: the next start reads it from the store.
    fn forget(&self, tenant: TenantId, id: WorkflowId) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).remove(&(tenant, id));
    }
}

/// Forgets what has changed elsewhere, until `shutdown`. A lost wake-up costs a start one more read.
pub(crate) async fn follow(definitions: Arc<Definitions>, shutdown: CancellationToken) {
    let mut wakes = definitions.bus.subscribe();
    while let Some(wake) = shutdown.run_until_cancelled(wakes.recv()).await {
        match wake {
            Ok(Wake::WorkflowChanged { tenant, workflow }) => definitions.forget(tenant, workflow),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

impl Definitions {
    /// The version that was current when it was last looked at here. Admission checks that it still is.
    pub(crate) async fn current(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let name = (tenant.clone(), id.clone());
        let known = self.current.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        match known {
            Some(workflow) => Ok(Some(workflow)),
            None => self.reload(tenant, id).await,
        }
    }

    /// The current version, asked from the store.
    pub(crate) async fn reload(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let Some(found) = self.store.call(ReadWorkflow { tenant: tenant.clone(), id: id.clone() }).await?
        else {
            return Ok(None);
        };
        let workflow = self.compile(tenant, &found)?;
        let name = (tenant.clone(), id.clone());
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.insert(name, workflow.clone());
        Ok(Some(workflow))
    }

    /// This version, which a run is pinned to.
    pub(crate) async fn version(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        version: u32,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let name = ((tenant.clone(), id.clone()), version);
        let known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if known.is_some() {
            return Ok(known);
        }
        match self.store.call(ReadWorkflowVersion { tenant: tenant.clone(), id: id.clone(), version }).await?
        {
            None => Ok(None),
            Some(found) => self.compile(tenant, &found).map(Some),
        }
    }

    fn compile(&self, tenant: &TenantId, found: &WorkflowVersion) -> Result<Arc<Workflow>, StoreError> {
        let compiled = Workflow::compile(found.id.clone(), found.version, &found.document);
        // It compiled when it was saved; if it does not now, the rules have changed under it.
        let workflow = Arc::new(compiled.map_err(|error| StoreError::Damaged {
            table: "workflow_versions",
            key: format!("{tenant}/{}/{}", found.id, found.version),
            reason: error.to_string(),
        })?);
        let name = ((tenant.clone(), found.id.clone()), found.version);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.insert(name, workflow.clone());
        Ok(workflow)
    }
}
