//! Why the store did not open, and what callers see of errors of the database.

use std::any::Any;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use interlock_backend::local::Table;
use interlock_backend::{Effect, StoreError};
use rusqlite::ErrorCode;

/// Why the store did not open. Nothing in the folder was changed, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data folder {} cannot be used: {source}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "the data folder {} is in use by another Interlock process: stop that one, or choose another folder",
        folder.display()
    )]
    InUse { folder: PathBuf },
    #[error(
        "the data is of format {found}, and this version of Interlock knows formats up to {known}: use the version \
         that wrote it, or a newer one"
    )]
    Newer { found: u32, known: u32 },
    #[error("{} is not a database of Interlock: move it away, or choose another folder", file.display())]
    Foreign { file: PathBuf },
    #[error(
        "{} is damaged ({what}): move the data folder away and restore it from a backup",
        file.display()
    )]
    Damaged { file: PathBuf, what: String },
    /// What was done before `action` stays done; opening again continues from there.
    #[error("cannot {action} in {}: {source}", file.display())]
    Database { file: PathBuf, action: &'static str, source: rusqlite::Error },
    #[error("cannot start a thread of the store: {0}")]
    Thread(#[source] io::Error),
}

pub(crate) fn unavailable(action: &'static str, effect: Effect, reason: &dyn Display) -> StoreError {
    StoreError::Unavailable { action, effect, reason: reason.to_string() }
}

/// The store was closed before the request reached it.
pub(crate) fn closed(action: &'static str) -> StoreError {
    unavailable(action, Effect::NotDone, &"the store is closed")
}

/// A decision is pure, so nothing happened; but a panic is a bug, and is reported as one.
pub(crate) fn panicked(action: &'static str, payload: &(dyn Any + Send)) -> StoreError {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(action, message, "decision panicked");
    unavailable(action, Effect::NotDone, &format_args!("a bug: {message}"))
}

/// A row could not be read.
pub(crate) fn unreadable(
    action: &'static str,
    table: Table,
    key: &str,
    error: &rusqlite::Error,
) -> StoreError {
    let damaged = match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase),
        // Not SQLite's own: the value is not text.
        None => true,
    };
    if damaged {
        StoreError::Damaged { table: table.name(), key: key.to_owned(), reason: error.to_string() }
    } else {
        unavailable(action, Effect::NotDone, error)
    }
}
