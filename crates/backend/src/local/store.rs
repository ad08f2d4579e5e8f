//! The contract, fulfilled by decisions.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use interlock_model::Timestamp;
use interlock_model::admission::StartOutcome;

use super::tables::{Decided, Decision, Executor, View};
use crate::verb::{ReadVerb, Verb};
use crate::verbs::{Admit, Answer, Request};
use crate::{Backend, StoreError, for_each_verb};

/// A verb that may change something, decided over tables.
pub trait Decide: Verb {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Self::Answer>;
}

/// A verb that only looks.
pub trait Look: ReadVerb {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Self::Answer, StoreError>;
}

/// A verb that looks at a view and nothing else: `look!(ReadWorker, |verb, view| read(…))`.
macro_rules! look {
    ($verb:ident, |$this:ident, $view:ident| $answer:expr) => {
        impl $crate::local::Look for $verb {
            fn look(
                &self,
                $view: &dyn $crate::local::View,
                _: interlock_model::Timestamp,
            ) -> Result<Self::Answer, $crate::StoreError> {
                let $this = self;
                $answer
            }
        }
    };
}
pub(super) use look;

/// A store whose verbs are decisions over the tables of `E`.
#[derive(Debug)]
pub struct LocalStore<E> {
    tables: E,
    commands: AtomicU64,
}

impl<E> LocalStore<E> {
    pub fn new(tables: E) -> Self {
        Self { tables, commands: AtomicU64::new(0) }
    }

    pub fn tables(&self) -> &E {
        &self.tables
    }
}

macro_rules! decide {
    (($request:ident, $view:ident, $now:ident) reads { $($read:ident),* } writes { $($write:ident),* }) => {
        match $request {
            $(Request::$read(verb) => Ok(Decision::unchanged(Answer::$read(verb.look($view, $now)?))),)*
            $(Request::$write(verb) => Ok(verb.decide($view, $now)?.map(Answer::$write)),)*
        }
    };
}

/// Decides any verb. Not generic over the tables, so that the decisions are compiled once.
fn decide(request: &Request, view: &dyn View, now: Timestamp) -> Decided<Answer> {
    for_each_verb!(decide!(request, view, now))
}

#[async_trait]
impl<E: Executor> Backend for LocalStore<E> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let action = request.action();
        if request.writes() {
            self.tables.write(action, move |view, now| decide(&request, view, now)).await
        } else {
            self.tables.read(action, move |view, now| Ok(decide(&request, view, now)?.answer)).await
        }
    }

    fn refusal(&self, admit: &Admit) -> Option<StartOutcome> {
        self.tables.peek(admit)
    }

    fn commands_sent(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }
}
