//! What was given up on: retried or deleted, one by one or many at once.

use interlock_backend::dead_letters::LetterRetry;
use interlock_backend::{PageRequest, StoreError, Wake};
use interlock_model::dead_letter::LetterFilter;
use interlock_model::{JobId, RunId, TenantId};

use crate::service::Control;

/// Letters that are read at once: each may carry a result.
const LETTERS_A_PAGE: usize = 100;

/// Letters that one call looks through.
const LOOKED_AT_MAX: usize = 20_000;

/// What is to become of many letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    pub filter: LetterFilter,
    pub action: SweepAction,
    /// Letters that it is done to at most.
    pub limit: usize,
    /// Only tell.
    pub is_dry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepAction {
    Retry { by: String },
    Delete,
}

/// What became of them; of a dry one, what would have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub done: Vec<JobId>,
    pub refused: Vec<(JobId, String)>,
    /// There are more letters that are meant, or that were not looked at.
    pub has_more: bool,
}

/// Why a letter cannot be retried, for people.
#[must_use]
pub fn why_not_retried(retry: LetterRetry, run: RunId) -> Option<String> {
    match retry {
        LetterRetry::Posted => None,
        LetterRetry::RunEnded => Some(format!("its run has ended: rerun it (interlock run rerun {run})")),
        LetterRetry::RunGone => Some(format!("its run {run} is deleted: start another")),
    }
}

impl Control {
    /// Gives the letter's step another attempt, and lets its run go on with it.
    pub async fn retry_letter(
        &self,
        tenant: &TenantId,
        job: &JobId,
        by: &str,
    ) -> Result<LetterRetry, StoreError> {
        let retry = self.store.retry_dead_letter(tenant, job, by).await?;
        if retry == LetterRetry::Posted {
            self.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        Ok(retry)
    }

    /// Whether a letter of this run could be retried now.
    pub async fn may_retry(&self, tenant: &TenantId, run: RunId) -> Result<LetterRetry, StoreError> {
        Ok(match self.store.run(tenant, run).await? {
            None => LetterRetry::RunGone,
            Some(run) if run.head.status.is_final() => LetterRetry::RunEnded,
            Some(_) => LetterRetry::Posted,
        })
    }

    /// Retries or deletes many letters. One that is refused does not stop the others; asking again goes on with the rest.
    pub async fn sweep_letters(&self, tenant: &TenantId, sweep: &Sweep) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        let mut page = PageRequest { limit: LETTERS_A_PAGE, after: None };
        for _ in 0..LOOKED_AT_MAX / LETTERS_A_PAGE {
            let found = self.store.dead_letters(tenant, &page).await?;
            for letter in found.items.into_iter().filter(|letter| sweep.filter.is_meant(letter)) {
                // Those that are refused stay, and would be in the way of the rest each time.
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
            (SweepAction::Retry { by }, false) => self.retry_letter(tenant, job, by).await,
            (SweepAction::Retry { .. }, true) => self.may_retry(tenant, job.run).await,
            (SweepAction::Delete, false) => {
                let deleted = self.store.delete_dead_letter(tenant, job).await;
                deleted.map(|()| LetterRetry::Posted)
            }
            (SweepAction::Delete, true) => Ok(LetterRetry::Posted),
        };
        match retry {
            Ok(retry) => Ok(why_not_retried(retry, job.run)),
            // Somebody else was faster.
            Err(StoreError::NotFound { .. }) => Ok(Some("it is there no more".to_owned())),
            Err(error @ StoreError::Damaged { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}
