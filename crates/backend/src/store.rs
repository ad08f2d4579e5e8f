//! How a store is asked: one call for all verbs.

use std::sync::Arc;

use async_trait::async_trait;
use interlock_model::admission::StartOutcome;

use crate::StoreError;
use crate::verb::{ReadVerb, Verb};
use crate::verbs::{Admit, Answer, Request};

/// What a backend implements. A layer between a caller and a backend is one, too, and is written once over all verbs.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Carries out one verb, atomically. The answer is that verb's.
    async fn ask(&self, request: Request) -> Result<Answer, StoreError>;

    /// The answer to a start, if it is certain that the start changes nothing: a storm of refusals then costs next to
    /// nothing. None: call [`Admit`].
    fn refusal(&self, admit: &Admit) -> Option<StartOutcome>;

    /// Commands that this process has sent to the store.
    fn commands_sent(&self) -> u64;
}

/// Everything that the control plane keeps: a backend, asked by typed verbs.
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
}

impl Store {
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    pub async fn call<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        let answer = self.backend.ask(verb.into_request()).await?;
        Ok(V::unwrap(answer).expect("a backend answers the verb that was asked"))
    }

    /// See [`Backend::refusal`].
    #[must_use]
    pub fn refusal(&self, admit: &Admit) -> Option<StartOutcome> {
        self.backend.refusal(admit)
    }

    #[must_use]
    pub fn commands_sent(&self) -> u64 {
        self.backend.commands_sent()
    }

    /// A handle that cannot write.
    #[must_use]
    pub fn reader(&self) -> StoreReader {
        StoreReader { store: self.clone() }
    }
}

/// A store for looking only: verbs that write do not compile.
#[derive(Clone)]
pub struct StoreReader {
    store: Store,
}

impl StoreReader {
    pub async fn call<V: ReadVerb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        self.store.call(verb).await
    }

    #[must_use]
    pub fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }
}
