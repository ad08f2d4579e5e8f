//! Whose word about a job counts: that of the worker that holds it.

use interlock_backend::StoreError;
use interlock_backend::jobs::JobView;
use interlock_backend::verbs::ReadJob;
use interlock_control::results::RUN_BUSY;
use interlock_model::job::EndCause;
use interlock_model::{Fence, JobId, TenantId};

use crate::edge::Shared;
use crate::wire::{self, DispatchIdentity};

/// Why a word about a job does not count, or not now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unheld {
    /// It names no job at all.
    #[error("{0}")]
    Unreadable(String),
    /// It never will: it is stale, or somebody else's, or about nothing that is known.
    #[error("{0}")]
    Refused(String),
    /// The same was told and written down before.
    #[error("it was recorded before")]
    Recorded,
    /// It may when it is tried again.
    #[error("{0}")]
    NotNow(String),
    /// It will, when nobody is at the run of this job.
    #[error("{RUN_BUSY}")]
    Busy(JobId),
}

impl Unheld {
    /// A store that gave an answer has decided; one that did not may yet.
    pub(crate) fn from_store(error: &StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } | StoreError::Fenced { .. } | StoreError::Conflict(_) => {
                Self::Refused(error.to_string())
            }
            StoreError::Unavailable { .. } | StoreError::Damaged { .. } => Self::NotNow(error.to_string()),
        }
    }
}

/// A job that somebody speaks about.
#[derive(Debug, Clone)]
pub(crate) struct Spoken {
    pub(crate) tenant: TenantId,
    pub(crate) id: JobId,
    pub(crate) view: JobView,
}

/// Finds the job that a worker names. The protocol names the run alone; the mailbox knows whose it is.
pub(crate) async fn find(shared: &Shared, job: &str) -> Result<Spoken, Unheld> {
    let id: JobId = job.parse().map_err(|error| Unheld::Unreadable(format!("{error}")))?;
    let tenant = shared.mailbox.tenant_of(id.run).await.map_err(|error| Unheld::from_store(&error))?;
    let Some(tenant) = tenant else { return Err(Unheld::Refused(format!("run {} is not known", id.run))) };
    let view = shared
        .store
        .call(ReadJob { tenant: tenant.clone(), job: id.clone() })
        .await
        .map_err(|error| Unheld::from_store(&error))?;
    let Some(view) = view else { return Err(Unheld::Refused(format!("job {id} is not known"))) };
    Ok(Spoken { tenant, id, view })
}

impl Spoken {
    /// The fence under which this worker may speak, if it holds the job.
    pub(crate) fn held_by(&self, worker: &str, echo: Option<&DispatchIdentity>) -> Result<Fence, Unheld> {
        if let Some(end) = &self.view.job.end {
            return Err(Unheld::Refused(format!("job {} has ended ({:?})", self.id, end.cause)));
        }
        let Some(lease) = &self.view.lease else {
            return Err(Unheld::Refused(format!("nobody holds job {}", self.id)));
        };
        // A worker that NATS cannot route to got its job through its topic, so that whoever serves it may have it.
        let went_to_it = wire::direct_subject(lease.worker.as_str()).is_some();
        if went_to_it && lease.worker.as_str() != worker {
            let worker = wire::shortened(worker, 128);
            return Err(Unheld::Refused(format!("{} holds job {}, not {worker}", lease.worker, self.id)));
        }
        match echo.map(|dispatch| dispatch.attempt) {
            Some(attempt) if attempt != 0 && attempt != lease.fence.number() => Err(Unheld::Refused(
                format!("the dispatch of job {} is {}, not {attempt}", self.id, lease.fence),
            )),
            Some(_) | None => Ok(lease.fence),
        }
    }

    /// Whether this worker's result, ending the job so, is the one that did end it.
    pub(crate) fn was_ended_by(&self, worker: &str, cause: EndCause) -> bool {
        let end = self.view.job.end.as_ref();
        let by =
            |end: &interlock_model::job::JobEnd| end.worker.as_ref().is_some_and(|by| by.as_str() == worker);
        end.is_some_and(|end| end.cause == cause && by(end))
    }
}
