//! Dead letters: retried or deleted, one by one or many at once.

use std::sync::Arc;

use interlock_backend::dead_letters::DeadLetterRetry;
use interlock_backend::verbs::{AddDeadLetter, DeleteDeadLetter, ListDeadLetters, ReadRun, RetryDeadLetter};
use interlock_backend::{PageRequest, StoreError, Wake};
use interlock_model::dead_letter::{DeadLetter, LetterFilter};
use interlock_model::{JobId, RunId, TenantId};

use crate::process::Process;

/// Dead letters of one page: each may carry a result.
const LETTERS_A_PAGE: usize = 100;

/// Dead letters that one call reads.
const LOOKED_AT_MAX: usize = 20_000;

/// An action on many dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    pub filter: LetterFilter,
    pub action: SweepAction,
    /// At most this many.
    pub limit: usize,
    /// Report only.
    pub is_dry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepAction {
    Retry { by: String },
    Delete,
}

/// What was done; of a dry one, what would have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub done: Vec<JobId>,
    pub refused: Vec<(JobId, String)>,
    /// There are more that match, or that were not read.
    pub has_more: bool,
}

/// Why a dead letter cannot be retried.
pub fn why_not_retried(retry: DeadLetterRetry, run: RunId) -> Option<String> {
    match retry {
        DeadLetterRetry::Posted => None,
        DeadLetterRetry::RunEnded => Some(format!("its run has ended: rerun it (interlock run rerun {run})")),
        DeadLetterRetry::RunGone => Some(format!("its run {run} is deleted: start another")),
    }
}

/// Retries and deletes dead letters.
pub struct DeadLetters {
    pub(crate) process: Arc<Process>,
}

impl DeadLetters {
    pub async fn add(&self, tenant: &TenantId, letter: &DeadLetter) -> Result<(), StoreError> {
        let dead_letters_max = self.process.settings.dead_letters_max;
        let add = AddDeadLetter { tenant: tenant.clone(), dead_letter: letter.clone(), dead_letters_max };
        self.process.call(add).await
    }

    pub async fn delete(&self, tenant: &TenantId, job: &JobId) -> Result<(), StoreError> {
        self.process.call(DeleteDeadLetter { tenant: tenant.clone(), job: job.clone() }).await
    }

    /// Gives the step another attempt.
    pub async fn retry(
        &self,
        tenant: &TenantId,
        job: &JobId,
        by: &str,
    ) -> Result<DeadLetterRetry, StoreError> {
        let retry = self
            .process
            .call(RetryDeadLetter { tenant: tenant.clone(), job: job.clone(), by: by.to_owned() })
            .await?;
        if retry == DeadLetterRetry::Posted {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        Ok(retry)
    }

    /// Whether a dead letter of this run could be retried now.
    pub async fn may_retry(&self, tenant: &TenantId, run: RunId) -> Result<DeadLetterRetry, StoreError> {
        Ok(match self.process.call(ReadRun { tenant: tenant.clone(), run }).await? {
            None => DeadLetterRetry::RunGone,
            Some(run) if run.head.status.is_final() => DeadLetterRetry::RunEnded,
            Some(_) => DeadLetterRetry::Posted,
        })
    }

    /// Retries or deletes many dead letters. One that is refused does not stop the others; a repeat continues with the rest.
    pub async fn sweep(&self, tenant: &TenantId, sweep: &Sweep) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        let mut page = PageRequest { limit: LETTERS_A_PAGE, after: None };
        for _ in 0..LOOKED_AT_MAX / LETTERS_A_PAGE {
            let found =
                self.process.call(ListDeadLetters { tenant: tenant.clone(), page: page.clone() }).await?;
            for letter in found.items.into_iter().filter(|letter| sweep.filter.is_meant(letter)) {
                // Refused ones do not count: they stay, and would block the rest each time.
                if swept.done.len() == sweep.limit {
                    return Ok(Swept { has_more: true, ..swept });
                }
                match self.sweep_one(tenant, &letter.job, sweep).await? {
                    None => swept.done.push(letter.job),
                    Some(reason) => swept.refused.push((letter.job, reason)),
                }
            }
            let Some(next) = found.next else { return Ok(swept) };
            page.after = Some(next);
        }
        Ok(Swept { has_more: true, ..swept })
    }

    /// Why it was refused, if it was.
    async fn sweep_one(
        &self,
        tenant: &TenantId,
        job: &JobId,
        sweep: &Sweep,
    ) -> Result<Option<String>, StoreError> {
        let retry = match (&sweep.action, sweep.is_dry) {
            (SweepAction::Retry { by }, false) => self.retry(tenant, job, by).await,
            (SweepAction::Retry { .. }, true) => self.may_retry(tenant, job.run).await,
            (SweepAction::Delete, false) => self.delete(tenant, job).await.map(|()| DeadLetterRetry::Posted),
            (SweepAction::Delete, true) => Ok(DeadLetterRetry::Posted),
        };
        match retry {
            Ok(retry) => Ok(why_not_retried(retry, job.run)),
            // Another call was faster.
            Err(StoreError::NotFound { .. }) => Ok(Some("it does not exist any more".to_owned())),
            Err(error @ StoreError::Damaged { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}
