//! Whether a worker may report on a job: only the worker that has its lease may.

use interlock_backend::StoreError;
use interlock_backend::jobs::{JobView, OTHER_EDGE};
use interlock_backend::verbs::ReadJob;
use interlock_control::results::RUN_BUSY;
use interlock_model::job::{EndCause, JobEnd};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, InvalidId, JobId, TenantId};

use crate::confirming;
use crate::edge::Shared;
use crate::push::DispatchedJob;
use crate::wire::{self, BadPacket, DispatchIdentity};

/// Why a packet has no effect, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    /// It cannot be read, or is not acceptable from its sender.
    #[error("{0}")]
    Unreadable(String),
    /// The lease or the job that it needs does not exist, and never will.
    #[error("{0}")]
    Refused(String),
    #[error("it was recorded before")]
    Recorded,
    /// Another delivery may succeed.
    #[error("{0}")]
    NotNow(String),
    /// Another delivery will succeed, when the run of this job is free.
    #[error("{RUN_BUSY}")]
    Busy(JobId),
}

impl From<BadPacket> for Rejection {
    fn from(error: BadPacket) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<InvalidId> for Rejection {
    fn from(error: InvalidId) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<StoreError> for Rejection {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        if error.is_refusal() { Self::Refused(text) } else { Self::NotNow(text) }
    }
}

/// The job that a packet names.
#[derive(Debug, Clone)]
pub(crate) struct NamedJob {
    pub(crate) tenant: TenantId,
    pub(crate) id: JobId,
    pub(crate) view: JobView,
}

impl NamedJob {
    /// Finds the job. A packet names the run but not its tenant, which the mailbox knows.
    pub(crate) async fn find(shared: &Shared, job: &str) -> Result<Self, Rejection> {
        let id: JobId = job.parse()?;
        let tenant = shared.mailbox.tenant_of(id.run).await?;
        let tenant = tenant.ok_or_else(|| Rejection::Refused(format!("run {} is unknown", id.run)))?;
        let view = shared.store.call(ReadJob { tenant: tenant.clone(), job: id.clone() }).await?;
        let view = view.ok_or_else(|| Rejection::Refused(format!("job {id} is unknown")))?;
        Ok(Self { tenant, id, view })
    }

    /// The fence under which the worker may report, if it has the lease.
    pub(crate) fn fence_of(&self, worker: &str, echo: Option<&DispatchIdentity>) -> Result<Fence, Rejection> {
        if let Some(end) = &self.view.job.end {
            return Err(Rejection::Refused(format!("job {} has ended ({:?})", self.id, end.cause)));
        }
        let Some(lease) = &self.view.lease else {
            return Err(Rejection::Refused(format!("job {} has no lease", self.id)));
        };
        if !lease.was_given_over(Edge::Nats) {
            return Err(Rejection::Refused(format!("job {}: {OTHER_EDGE}", self.id)));
        }
        if lease.worker.as_str() != worker {
            let worker = wire::shortened(worker, 128);
            return Err(Rejection::Refused(format!("{} holds job {}, not {worker}", lease.worker, self.id)));
        }
        match echo.map(|dispatch| dispatch.attempt) {
            Some(attempt) if attempt != 0 && attempt != lease.fence.number() => Err(Rejection::Refused(
                format!("the dispatch of job {} is {}, not {attempt}", self.id, lease.fence),
            )),
            Some(_) | None => Ok(lease.fence),
        }
    }

    /// The worker has said something about the job, so the push has reached it.
    pub(crate) async fn confirm(&self, shared: &Shared, worker: &str, echo: Option<&DispatchIdentity>) {
        let is_unconfirmed = |lease| shared.control.process.is_unconfirmed(lease);
        if let (true, Ok(fence)) =
            (self.view.lease.as_ref().is_some_and(is_unconfirmed), self.fence_of(worker, echo))
        {
            let (tenant, job) = (self.tenant.clone(), self.id.clone());
            confirming::confirm(shared, &DispatchedJob { tenant, job, fence }).await;
        }
    }

    /// How a result of this worker with this cause has ended the job, if one has.
    pub(crate) fn end_by(&self, worker: &str, cause: EndCause) -> Option<&JobEnd> {
        let end = self.view.job.end.as_ref().filter(|end| end.cause == cause)?;
        end.worker.as_ref().is_some_and(|by| by.as_str() == worker).then_some(end)
    }
}
