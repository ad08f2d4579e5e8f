//! How a store is asked: one call for all verbs.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use interlock_model::admission::StartOutcome;

use crate::StoreError;
use crate::instrumented::StoreCalls;
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

/// Everything that the control plane keeps: a backend, asked by typed verbs. Every call is counted.
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
    calls: Arc<StoreCalls>,
}

impl Store {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, calls: Arc::default() }
    }

    pub async fn call<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        let began = Instant::now();
        let answer = self.backend.ask(verb.into_request()).await;
        self.calls.count(V::NAME, &answer, began.elapsed());
        self.calls.note_room(V::WRITES, &answer);
        Ok(V::unwrap(answer?).expect("a backend answers the verb that was asked"))
    }

    /// See [`Backend::refusal`]. Not counted: a refusal from memory is no call.
    pub fn refusal(&self, admit: &Admit) -> Option<StartOutcome> {
        self.backend.refusal(admit)
    }

    pub fn commands_sent(&self) -> u64 {
        self.backend.commands_sent()
    }

    pub fn calls(&self) -> &StoreCalls {
        &self.calls
    }

    /// A handle that cannot write.
    pub fn reader(&self) -> StoreReader {
        StoreReader { store: self.clone() }
    }
}

/// A store for reading: verbs that write do not compile.
#[derive(Clone)]
pub struct StoreReader {
    store: Store,
}

impl StoreReader {
    pub async fn call<V: ReadVerb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        self.store.call(verb).await
    }

    pub fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }

    pub fn calls(&self) -> &StoreCalls {
        self.store.calls()
    }
}
