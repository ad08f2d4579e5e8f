//! Compiled workflows, kept in memory. The store says whether what is kept is still the current version.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::workflows::WorkflowVersion;
use interlock_backend::{StoreError, Wake};
use interlock_model::workflow::{InvalidWorkflow, Workflow, WorkflowDocument};
use interlock_model::{TenantId, WorkflowId};

use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::service::Control;

type Name = (TenantId, WorkflowId);

/// Versions never change, so what is kept is right for ever; which one is current may have changed.
#[derive(Debug)]
pub struct Definitions {
    compiled: Mutex<Bounded<(Name, u32), Arc<Workflow>>>,
    current: Mutex<Bounded<Name, Arc<Workflow>>>,
}

/// A map that drops its oldest entry when it is full.
#[derive(Debug)]
struct Bounded<K, V> {
    entries: BTreeMap<K, V>,
    age: VecDeque<K>,
    max: usize,
}

impl<K: Ord + Clone, V: Clone> Bounded<K, V> {
    fn new(max: usize) -> Self {
        Self { entries: BTreeMap::new(), age: VecDeque::new(), max }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.entries.get(key).cloned()
    }

    fn remove(&mut self, key: &K) {
        if self.entries.remove(key).is_some() {
            self.age.retain(|known| known != key);
        }
    }

    fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.age.push_back(key);
        }
        while self.entries.len() > self.max {
            match self.age.pop_front() {
                Some(oldest) => drop(self.entries.remove(&oldest)),
                None => return,
            }
        }
    }
}

impl Definitions {
    pub(crate) fn new(max: usize) -> Self {
        Self { compiled: Mutex::new(Bounded::new(max)), current: Mutex::new(Bounded::new(max)) }
    }

    /// The workflow was saved or deleted somewhere: the next start asks the store. Without this word it would ask with
    /// the old version, be told, and ask again.
    pub(crate) fn forget(&self, tenant: TenantId, id: WorkflowId) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).remove(&(tenant, id));
    }
}

/// Why a document was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error(transparent)]
    Invalid(#[from] InvalidWorkflow),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Forgets what has changed elsewhere, until `shutdown`. A word that is lost costs a start one more question.
pub(crate) async fn follow(control: Arc<Control>, shutdown: CancellationToken) {
    let mut heard = control.bus.subscribe();
    while let Some(word) = shutdown.run_until_cancelled(heard.recv()).await {
        match word {
            Ok(Wake::WorkflowChanged { tenant, workflow }) => control.definitions.forget(tenant, workflow),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

impl Control {
    /// Checks the document and keeps it as the next version of its workflow. A document without an id gets one.
    pub async fn save_workflow(
        &self,
        tenant: &TenantId,
        document: WorkflowDocument,
    ) -> Result<(WorkflowId, u32), SaveError> {
        let id = match &document.id {
            Some(id) => id.clone(),
            None => {
                self.identity.run_id(self.clock.now()).to_string().parse().expect("a run id makes a name")
            }
        };
        let document = WorkflowDocument { id: Some(id.clone()), ..document };
        Workflow::compile(id.clone(), 0, &document)?;
        let version = self.store.save_workflow(tenant, &id, &document).await?;
        self.wake(Wake::WorkflowChanged { tenant: tenant.clone(), workflow: id.clone() });
        Ok((id, version))
    }

    /// Refuses new starts. Runs that have begun go on with their version.
    pub async fn delete_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<(), StoreError> {
        self.store.delete_workflow(tenant, id).await?;
        self.wake(Wake::WorkflowChanged { tenant: tenant.clone(), workflow: id.clone() });
        Ok(())
    }

    /// The version that was current when it was last looked at here. Admission checks that it still is.
    pub(crate) async fn current_workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let name = (tenant.clone(), id.clone());
        let known = self.definitions.current.lock().unwrap_or_else(PoisonError::into_inner).get(&name);
        match known {
            Some(workflow) => Ok(Some(workflow)),
            None => self.reload_workflow(tenant, id).await,
        }
    }

    /// The current version, asked from the store.
    pub(crate) async fn reload_workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let Some(found) = self.store.workflow(tenant, id).await? else { return Ok(None) };
        let workflow = self.compile(tenant, &found)?;
        let name = (tenant.clone(), id.clone());
        let mut current = self.definitions.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.insert(name, workflow.clone());
        Ok(Some(workflow))
    }

    /// This version, which a run is pinned to.
    pub(crate) async fn workflow_version(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        version: u32,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let name = ((tenant.clone(), id.clone()), version);
        let known = self.definitions.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&name);
        if known.is_some() {
            return Ok(known);
        }
        match self.store.workflow_version(tenant, id, version).await? {
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
        let mut compiled = self.definitions.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.insert(name, workflow.clone());
        Ok(workflow)
    }
}
