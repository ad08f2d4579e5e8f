//! Dead letters: kept until a person retries or deletes them.

use interlock_model::dead_letter::DeadLetter;
use interlock_model::{JobId, TenantId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::{Page, PageRequest};

/// The answer to a retry of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum DeadLetterRetry {
    /// The dead letter waits in its run's inbox and is no longer listed.
    Posted,
    /// The run has ended. Nothing was changed.
    RunEnded,
    /// The run was deleted, or never existed. Nothing was changed.
    RunGone,
}

/// How many dead letters a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct DeadLetterCount {
    pub kept: u32,
    /// Those that made room for others since the tenant's first.
    pub dropped: u64,
}

/// The most dead letters that one step drops: if the bound was lowered, the rest goes with the next ones.
pub const DROPPED_AT_ONCE_MAX: u32 = 32;

/// Saves the dead letter. A job has one: the last. Of more than `dead_letters_max`, those of the oldest runs make room in
/// the same step, and are counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AddDeadLetter {
    pub tenant: TenantId,
    pub dead_letter: DeadLetter,
    pub dead_letters_max: u32,
}
verb!(write => AddDeadLetter, "add_dead_letter", "add a dead letter", ());

/// Hands the dead letter to its run, which gives its step a new attempt: once, however often it is called.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetryDeadLetter {
    pub tenant: TenantId,
    pub job: JobId,
    pub by: String,
}
verb!(write => RetryDeadLetter, "retry_dead_letter", "retry a dead letter", DeadLetterRetry);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountDeadLetters {
    pub tenant: TenantId,
}
verb!(read => CountDeadLetters, "count_dead_letters", "count dead letters", DeadLetterCount);

/// Those of the newest runs first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListDeadLetters {
    pub tenant: TenantId,
    pub page: PageRequest,
}
verb!(read => ListDeadLetters, "list_dead_letters", "list dead letters", Page<DeadLetter>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadDeadLetter {
    pub tenant: TenantId,
    pub job: JobId,
}
verb!(read => ReadDeadLetter, "read_dead_letter", "read a dead letter", Option<DeadLetter>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteDeadLetter {
    pub tenant: TenantId,
    pub job: JobId,
}
verb!(write => DeleteDeadLetter, "delete_dead_letter", "delete a dead letter", ());
