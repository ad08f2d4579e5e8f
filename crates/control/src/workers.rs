//! The registry of workers: NATS workers register, send heartbeats and are abandoned; workers of both edges are drained.

use std::sync::Arc;

use interlock_backend::registry::{Beat, Handshake, Registry};
use interlock_backend::verbs::{
    AbandonWorker, DrainNatsWorker, DrainWorker, ForgetNatsWorker, ReadRegistry, RecordBeat,
    RegisterNatsWorker,
};
use interlock_backend::{StoreError, Wake};
use interlock_model::scheduling::{Edge, LiveWorker};
use interlock_model::{TenantId, Timestamp, WorkerId};

use crate::every_tenant::EveryTenant;
use crate::journal;
use crate::process::Process;
use crate::worker_directory::KnownWorker;

/// Jobs that one step ends.
const JOBS_A_STEP: usize = 500;

/// Keeps the registry of workers.
pub struct Workers {
    pub(crate) process: Arc<Process>,
}

impl Workers {
    pub async fn register(&self, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError> {
        let register = RegisterNatsWorker { worker: worker.clone(), handshake: handshake.clone() };
        self.process.call(register).await
    }

    /// Returns the worker's previous heartbeat.
    pub async fn beat(&self, worker: &WorkerId, beat: &Beat) -> Result<Option<Beat>, StoreError> {
        self.process.call(RecordBeat { worker: worker.clone(), beat: beat.clone() }).await
    }

    pub async fn registry(&self) -> Result<Registry, StoreError> {
        self.process.call(ReadRegistry).await
    }

    pub async fn forget(&self, worker: &WorkerId, unless_after: Timestamp) -> Result<(), StoreError> {
        self.process.call(ForgetNatsWorker { worker: worker.clone(), unless_after }).await
    }

    /// Ends the leases of a dead worker, of all tenants. Returns how many jobs that were.
    pub async fn abandon(&self, worker: &WorkerId) -> Result<usize, StoreError> {
        let mut lost = 0;
        let mut tenants = EveryTenant::default();
        while let Some(tenant) = tenants.next(&self.process).await? {
            lost += self.abandon_of(&tenant, worker).await?;
        }
        Ok(lost)
    }

    async fn abandon_of(&self, tenant: &TenantId, worker: &WorkerId) -> Result<usize, StoreError> {
        let abandon = AbandonWorker { tenant: tenant.clone(), worker: worker.clone(), limit: JOBS_A_STEP };
        let mut lost = 0;
        loop {
            let ended = self.process.call(abandon.clone()).await?;
            journal::expired(tenant, &ended);
            lost += ended.len();
            if !ended.is_empty() {
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
            }
            if ended.len() < JOBS_A_STEP {
                return Ok(lost);
            }
        }
    }

    /// Stops or resumes new jobs for the worker. It keeps the jobs that it has.
    pub async fn drain(
        &self,
        tenant: &TenantId,
        worker: &KnownWorker,
        is_draining: bool,
    ) -> Result<(), StoreError> {
        let LiveWorker { worker, edge, .. } = &worker.found;
        match edge {
            Edge::Http => {
                let (tenant, worker) = (tenant.clone(), worker.clone());
                self.process.call(DrainWorker { tenant, worker, is_draining }).await?;
            }
            Edge::Nats => {
                self.process.call(DrainNatsWorker { worker: worker.clone(), is_draining }).await?;
            }
        }
        self.process.wake(Wake::WorkersChanged);
        Ok(())
    }
}
