//! Dead letters: kept until somebody has looked at them.

use async_trait::async_trait;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::{JobId, TenantId};

use crate::{Page, PageRequest, StoreError};

/// What became of the wish for another attempt of a job that was given up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LetterRetry {
    /// The letter has left its list and waits in its run's inbox.
    Posted,
    /// The run has ended. Nothing was changed.
    RunEnded,
    /// The run is deleted, or was never here. Nothing was changed.
    RunGone,
}

/// How many dead letters a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LetterCount {
    pub kept: u32,
    /// Those that made room for others since the tenant exists.
    pub dropped: u64,
}

/// Letters that one step drops at most: if the bound was lowered, the rest goes with the next ones.
pub const DROPPED_AT_ONCE_MAX: u32 = 32;

#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Keeps the letter. One job has one letter: the last. Of more than `letters_max`, those of the oldest runs make room
    /// in the same step, and are counted.
    async fn bury(&self, tenant: &TenantId, letter: &DeadLetter, letters_max: u32) -> Result<(), StoreError>;

    /// Hands the letter to its run, which gives its step a new attempt: once, however often it is asked.
    async fn retry_dead_letter(
        &self,
        tenant: &TenantId,
        job: &JobId,
        by: &str,
    ) -> Result<LetterRetry, StoreError>;

    async fn count_dead_letters(&self, tenant: &TenantId) -> Result<LetterCount, StoreError>;

    /// Those of the newest runs first.
    async fn dead_letters(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError>;

    async fn dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<Option<DeadLetter>, StoreError>;

    async fn delete_dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<(), StoreError>;
}
