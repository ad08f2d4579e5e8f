//! Tunings that operators change at run time, and rollouts that try a candidate on a share of the runs.

pub(crate) mod follow;
mod trials;
mod tunings;

use std::sync::Arc;

use interlock_backend::StoreError;
use interlock_backend::documents::Document;
use interlock_model::contention::{Book, BookError};

use crate::contention::Contention;
use crate::process::Process;
pub use trials::{RolloutDetail, StartRollout};
pub use tunings::TuningChange;

/// Keeps the tunings in force as the store has them, and judges the rollout that runs.
pub struct Rollouts {
    process: Arc<Process>,
    contention: Arc<Contention>,
    /// Held from reading or changing the store's book until it is in force: what was read earlier must not replace what
    /// was read later.
    following: tokio::sync::Mutex<()>,
}

impl Rollouts {
    pub fn new(process: Arc<Process>, contention: Arc<Contention>) -> Self {
        Self { process, contention, following: tokio::sync::Mutex::default() }
    }
}

/// Why a tuning or a rollout was not changed.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    #[error(transparent)]
    Book(#[from] BookError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the store keeps, as a book. What is not there is an empty one.
fn read_book(document: Option<&Document>) -> Result<Book, StoreError> {
    let Some(Document { text, .. }) = document else { return Ok(Book::default()) };
    serde_json::from_str(text).map_err(|error| StoreError::Damaged {
        table: "documents",
        key: "contention".to_owned(),
        reason: error.to_string(),
    })
}
