//! Named limits: what operators do with them.

mod explain;
mod of_system;
mod workflow_pause;

use std::sync::Arc;

use interlock_backend::limits::{LimitBook, LimitChange};
use interlock_backend::verbs::{DeleteLimit, ListLimits, MoveQueuedRun, PauseLimit, SaveLimit};
use interlock_backend::{StoreError, Wake};
use interlock_model::limit::checks::InvalidLimit;
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::limit::owner::check_tenants_own;
use interlock_model::limit::rule::{LimitRule, MATCHING_MAX, check_matching};
use interlock_model::{LimitName, RunId, TenantId};

use crate::limit_books;
use crate::process::Process;
use crate::system_limits::SystemLimits;

pub use explain::{Explanation, MatchedGroup};
pub use workflow_pause::pausing_limit;

/// How often the limits of a tenant may change under one change before it gives up.
const RELOADS_MAX: u32 = 5;

/// Why a limit was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveLimitError {
    #[error(transparent)]
    Invalid(#[from] InvalidLimit),
    /// Another change came first; nothing was saved.
    #[error("the limit has changed: its revision is {revision}")]
    Changed { revision: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Saves, pauses and deletes named limits, and wakes the engine for the runs that they let start.
pub struct Limits {
    pub(crate) process: Arc<Process>,
    pub(crate) system: Arc<SystemLimits>,
}

impl Limits {
    /// Checks the document beside the tenant's other limits and saves it. `replaces`: only if that is its revision.
    pub async fn save(
        &self,
        tenant: &TenantId,
        name: LimitName,
        document: LimitDocument,
        replaces: Option<u64>,
    ) -> Result<u64, SaveLimitError> {
        check_tenants_own(&name)?;
        workflow_pause::check_pausing(&name, &document)?;
        let rule = LimitRule::compile(name.clone(), &document)?;
        let mut reloads = 0;
        loop {
            let book = self.process.call(ListLimits { tenant: tenant.clone() }).await?;
            let revision_before = revision_of(&book, &name);
            if replaces.is_some_and(|revision| revision != revision_before) {
                return Err(SaveLimitError::Changed { revision: revision_before });
            }
            let mut compiled = limit_books::compile(tenant, book)?;
            let before = compiled.rules.clone();
            compiled.rules.retain(|other| other.name != name);
            compiled.rules.push(rule.clone());
            check_matching(&compiled.rules, &before, MATCHING_MAX)?;
            let save = SaveLimit {
                tenant: tenant.clone(),
                name: name.clone(),
                document: document.clone(),
                book: compiled.revision,
                replaces,
            };
            match self.process.call(save).await? {
                LimitChange::Done { revision, granted } => return Ok(self.changed(tenant, revision, granted)),
                LimitChange::Changed { .. } if reloads < RELOADS_MAX => reloads += 1,
                LimitChange::Changed { revision } => return Err(SaveLimitError::Changed { revision }),
            }
        }
    }

    /// Deletes a limit. Runs that wait for it are re-evaluated.
    pub async fn delete(
        &self,
        tenant: &TenantId,
        name: LimitName,
        replaces: Option<u64>,
    ) -> Result<(), SaveLimitError> {
        match self.process.call(DeleteLimit { tenant: tenant.clone(), name, replaces }).await? {
            LimitChange::Done { revision, granted } => {
                self.changed(tenant, revision, granted);
                Ok(())
            }
            LimitChange::Changed { revision } => Err(SaveLimitError::Changed { revision }),
        }
    }

    /// Pauses a limit, or resumes it. The name of the tenant's own slots pauses the tenant.
    pub async fn pause(
        &self,
        tenant: &TenantId,
        name: LimitName,
        pause: Option<Pause>,
    ) -> Result<u64, StoreError> {
        match self.process.call(PauseLimit { tenant: tenant.clone(), name, pause }).await? {
            LimitChange::Done { revision, granted } => Ok(self.changed(tenant, revision, granted)),
            LimitChange::Changed { revision } => Ok(revision),
        }
    }

    /// Moves a waiting run to the front of its queue, or behind all others. False: it does not wait.
    pub async fn move_run(&self, tenant: &TenantId, run: RunId, to_front: bool) -> Result<bool, StoreError> {
        self.process.call(MoveQueuedRun { tenant: tenant.clone(), run, to_front }).await
    }

    fn changed(&self, tenant: &TenantId, revision: u64, granted: u32) -> u64 {
        if granted > 0 {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        revision
    }
}

/// 0: there is no such limit.
fn revision_of(book: &LimitBook, name: &LimitName) -> u64 {
    book.limits.iter().find(|limit| limit.name == *name).map_or(0, |limit| limit.revision)
}
