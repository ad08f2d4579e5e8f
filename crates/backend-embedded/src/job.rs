//! A decision on its way through the writer, whatever its answer's type.

use std::panic::{AssertUnwindSafe, catch_unwind};

use interlock_backend::local::{Changes, Decision, View};
use interlock_backend::{Effect, StoreError};
use interlock_model::Timestamp;
use tokio::sync::oneshot;

use crate::error::{panicked, unavailable};
use crate::statements::Statements;

/// Why a whole batch came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) effect: Effect,
    pub(crate) reason: String,
}

/// A request to the writer. It is decided once, then answered once.
pub(crate) trait Job: Send {
    /// Decides, keeps the answer, and says what must be written before it is true.
    fn decide(&mut self, tables: &Statements<'_>, now: Timestamp) -> Changes;

    /// Tells the answer, unless the batch failed: what an answer saw may then never have been.
    fn answer(self: Box<Self>, batch: Result<(), &Failure>);
}

/// What a caller asked for.
pub(crate) struct Asked<R, D> {
    action: &'static str,
    decide: Option<D>,
    answer: Option<Result<R, StoreError>>,
    reply: oneshot::Sender<Result<R, StoreError>>,
}

impl<R, D> Asked<R, D>
where
    R: Send + 'static,
    D: FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
{
    /// The job, and where its answer will arrive.
    pub(crate) fn by(
        action: &'static str,
        decide: D,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<R, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { action, decide: Some(decide), answer: None, reply }), answer)
    }
}

impl<R, D> Job for Asked<R, D>
where
    R: Send,
    D: FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send,
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
            Ok(()) => self.answer.expect("a batch succeeds after each of its jobs was decided"),
            Err(failure) => Err(unavailable(self.action, failure.effect, &failure.reason)),
        };
        // A caller that went away is not told.
        let _ = self.reply.send(answer);
    }
}
