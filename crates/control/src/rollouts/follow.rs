//! Every process follows the store: a changed tuning is in force everywhere within a second, and the first process that
//! has measured enough judges the running rollout.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::documents::{DOCUMENT_BYTES_MAX, Document, DocumentName};
use interlock_backend::verbs::{ReadDocument, SaveDocument};
use interlock_backend::{StoreError, Wake};
use interlock_model::contention::{Book, BookError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Rollouts, TuningError, read_book};
use crate::wakeups::Signal;

/// How often figures are saved and judged.
const JUDGED_EVERY: Duration = Duration::from_secs(1);

/// How often a change is retried because of concurrent changes.
const CHANGES_MAX: u32 = 16;

/// Follows until `shutdown`.
pub(crate) async fn run(rollouts: Arc<Rollouts>, shutdown: CancellationToken) {
    let changed = rollouts.process.wakeups.waiter(Signal::TuningChanged);
    let mut judge_at = Instant::now();
    let following = async {
        loop {
            if let Err(error) = rollouts.load_tunings().await {
                warn!(%error, "cannot read the tunings; the last known ones hold");
            }
            if Instant::now() >= judge_at {
                judge_at = Instant::now() + JUDGED_EVERY;
                rollouts.tend_rollout().await;
            }
            // Woken or not, the store is read again.
            let _woken =
                tokio::time::timeout(rollouts.process.settings.tuning_poll, changed.notified()).await;
        }
    };
    shutdown.run_until_cancelled(following).await;
    // Figures since the last save would be lost with the process.
    rollouts.save_counted().await;
}

impl Rollouts {
    /// Puts in force what the store says.
    pub async fn load_tunings(&self) -> Result<(), StoreError> {
        let _alone = self.following.lock().await;
        let document = self.process.call(ReadDocument { name: DocumentName::Contention }).await?;
        if document != self.contention.in_force().document {
            let book = read_book(document.as_ref())?;
            self.contention.put_in_force(document, book, self.process.now());
        }
        Ok(())
    }

    /// Changes the book in one step: a concurrent change is not overwritten.
    pub(super) async fn change_book<T>(
        &self,
        mut change: impl FnMut(&mut Book) -> Result<T, BookError>,
    ) -> Result<T, TuningError> {
        let _alone = self.following.lock().await;
        for _ in 0..CHANGES_MAX {
            let document = self.process.call(ReadDocument { name: DocumentName::Contention }).await?;
            let expected = document.as_ref().map_or(0, |document| document.version);
            let mut book = read_book(document.as_ref())?;
            let changed = change(&mut book)?;
            let text = written(&mut book);
            let save = SaveDocument { name: DocumentName::Contention, expected, text: text.clone() };
            if self.process.call(save).await? {
                let document = Document { version: expected + 1, text };
                self.contention.put_in_force(Some(document), book, self.process.now());
                self.process.wake(Wake::TuningChanged);
                return Ok(changed);
            }
        }
        Err(BookError::Conflict("too many change this at the same time; nothing was changed".to_owned())
            .into())
    }
}

/// The book as text that the store takes. If it is too long, its oldest entries go.
fn written(book: &mut Book) -> String {
    loop {
        let text = serde_json::to_string(book).expect("a book is plain data with text keys");
        if text.len() <= DOCUMENT_BYTES_MAX || !book.forget_some() {
            return text;
        }
    }
}
