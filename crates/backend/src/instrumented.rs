//! A backend that reports every call to an observer: which verb, how it ended, how long it took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use interlock_model::admission::StartOutcome;

use crate::verbs::{Admit, Answer, Request};
use crate::{Backend, Effect, StoreError};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Ok,
    /// The store answered that it cannot be done: not found, stale fence, or conflict.
    Refused,
    /// No answer, and certainly no effect.
    NotDone,
    /// No answer, and perhaps an effect.
    Unknown,
    /// A row cannot be read.
    Damaged,
}

impl CallOutcome {
    pub const ALL: [Self; 5] = [Self::Ok, Self::Refused, Self::NotDone, Self::Unknown, Self::Damaged];

    #[must_use]
    pub fn of<T>(answer: &Result<T, StoreError>) -> Self {
        match answer {
            Ok(_) => Self::Ok,
            Err(StoreError::NotFound { .. } | StoreError::Fenced { .. } | StoreError::Conflict(_)) => {
                Self::Refused
            }
            Err(StoreError::Unavailable { effect: Effect::NotDone, .. }) => Self::NotDone,
            Err(StoreError::Unavailable { effect: Effect::Unknown, .. }) => Self::Unknown,
            Err(StoreError::Damaged { .. }) => Self::Damaged,
        }
    }

    /// As a label of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::NotDone => "not_done",
            Self::Unknown => "unknown",
            Self::Damaged => "damaged",
        }
    }
}

pub trait CallObserver: Send + Sync {
    /// A call has ended. A call whose caller stopped waiting for it is not reported.
    fn called(&self, verb: &'static str, outcome: CallOutcome, elapsed: Duration);
}

pub struct Instrumented {
    backend: Arc<dyn Backend>,
    observer: Arc<dyn CallObserver>,
}

impl Instrumented {
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, observer: Arc<dyn CallObserver>) -> Self {
        Self { backend, observer }
    }
}

#[async_trait]
impl Backend for Instrumented {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let (verb, began) = (request.name(), Instant::now());
        let answer = self.backend.ask(request).await;
        self.observer.called(verb, CallOutcome::of(&answer), began.elapsed());
        answer
    }

    /// Not reported: a refusal from memory is no call.
    fn refusal(&self, admit: &Admit) -> Option<StartOutcome> {
        self.backend.refusal(admit)
    }

    fn commands_sent(&self) -> u64 {
        self.backend.commands_sent()
    }
}
