//! Every process follows the store: a changed tuning is in force everywhere within a second, and whoever counts enough
//! to judge the running roll-out judges it.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::documents::{DOCUMENT_BYTES_MAX, Document, DocumentName};
use interlock_model::contention::{Book, BookError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{TuningError, read_book};
use crate::service::Control;
use crate::wakeups::Signal;

/// How often figures are saved and judged.
const JUDGED_EVERY: Duration = Duration::from_secs(1);

/// How often a change is tried again because another came in between.
const CHANGES_MAX: u32 = 16;

/// Follows until `shutdown`.
pub(crate) async fn follow(control: Arc<Control>, shutdown: CancellationToken) {
    let changed = control.wakeups().waiter(Signal::TuningChanged);
    let mut judge_at = Instant::now();
    let following = async {
        loop {
            if let Err(error) = control.load_tunings().await {
                warn!(%error, "cannot read the tunings; the last known ones hold");
            }
            if Instant::now() >= judge_at {
                judge_at = Instant::now() + JUDGED_EVERY;
                control.tend_rollout().await;
            }
            // Woken or not makes no difference: the store is looked at either way.
            let _woken = tokio::time::timeout(control.settings.tuning_poll, changed.notified()).await;
        }
    };
    shutdown.run_until_cancelled(following).await;
    // What was counted since the last look would be lost with the process.
    control.save_counted().await;
}

impl Control {
    /// Puts in force what the store says.
    pub async fn load_tunings(&self) -> Result<(), StoreError> {
        let _alone = self.contention.following.lock().await;
        let document = self.store.document(DocumentName::Contention).await?;
        if document != self.contention.in_force().document {
            let book = read_book(document.as_ref())?;
            self.contention.put_in_force(document, book, self.clock.now());
        }
        Ok(())
    }

    /// Changes the book in one step: whoever comes in between is not overwritten.
    pub(super) async fn change_book<T>(
        &self,
        mut change: impl FnMut(&mut Book) -> Result<T, BookError>,
    ) -> Result<T, TuningError> {
        let _alone = self.contention.following.lock().await;
        for _ in 0..CHANGES_MAX {
            let document = self.store.document(DocumentName::Contention).await?;
            let (version, mut book) =
                (document.as_ref().map_or(0, |document| document.version), read_book(document.as_ref())?);
            let changed = change(&mut book)?;
            let text = written(&mut book);
            if self.store.save_document(DocumentName::Contention, version, &text).await? {
                let document = Document { version: version + 1, text };
                self.contention.put_in_force(Some(document), book, self.clock.now());
                self.wake(interlock_backend::Wake::TuningChanged);
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
