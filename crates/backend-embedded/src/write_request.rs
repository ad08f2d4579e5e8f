//! A request to the writer, whatever the type of its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use interlock_backend::local::{Changes, Decided, Decision, View};
use interlock_backend::{Effect, StoreError};
use interlock_model::Timestamp;
use tokio::sync::oneshot;

use crate::error::{panicked, unavailable};
use crate::statements::Statements;

/// Why a whole batch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) effect: Effect,
    pub(crate) reason: String,
}

/// It is decided once, then answered once.
pub(crate) trait WriteRequest: Send {
    /// Decides, keeps the answer, and returns what must be written before the answer is true.
    fn decide(&mut self, tables: &Statements<'_>, now: Timestamp) -> Changes;

    /// Sends the answer, or the failure of the batch: then what the decision read may never have been committed.
    fn answer(self: Box<Self>, batch: Result<(), &Failure>);
}

/// A request whose answer has the type `R`.
pub(crate) struct Typed<R, D> {
    action: &'static str,
    decide: Option<D>,
    answer: Option<Result<R, StoreError>>,
    reply: oneshot::Sender<Result<R, StoreError>>,
}

impl<R, D> Typed<R, D>
where
    R: Send + 'static,
    D: FnOnce(&dyn View, Timestamp) -> Decided<R> + Send + 'static,
{
    /// The request, and where its answer arrives.
    pub(crate) fn channel(
        action: &'static str,
        decide: D,
    ) -> (Box<dyn WriteRequest>, oneshot::Receiver<Result<R, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { action, decide: Some(decide), answer: None, reply }), answer)
    }
}

impl<R, D> WriteRequest for Typed<R, D>
where
    R: Send,
    D: FnOnce(&dyn View, Timestamp) -> Decided<R> + Send,
{
    fn decide(&mut self, tables: &Statements<'_>, now: Timestamp) -> Changes {
        let Some(decide) = self.decide.take() else { return Changes::default() };
        let view = tables.view(self.action);
        // A decision reads and never writes, so there is nothing half done to see after a panic.
        let decided = catch_unwind(AssertUnwindSafe(|| decide(&view, now)))
            .unwrap_or_else(|panic| Err(panicked(self.action, &*panic)));
        let (answer, changes) = match decided {
            Ok(Decision { answer, changes }) => (Ok(answer), changes),
            Err(error) => (Err(error), Changes::default()),
        };
        self.answer = Some(answer);
        changes
    }

    fn answer(self: Box<Self>, batch: Result<(), &Failure>) {
        let answer = match batch {
            Ok(()) => self.answer.expect("a batch succeeds after each of its requests was decided"),
            Err(failure) => Err(unavailable(self.action, failure.effect, &failure.reason)),
        };
        // The caller may have stopped waiting.
        let _ = self.reply.send(answer);
    }
}
