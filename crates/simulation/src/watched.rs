//! What one instance's calls go through on their way to the store: the checker sees them, and the instance may die
//! before or after any of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use interlock_backend::local::LocalStore;
use interlock_backend::verbs::{Admit, Answer, Request};
use interlock_backend::{Backend, StoreError, for_each_verb};
use interlock_model::admission::StartOutcome;
use tokio::sync::mpsc;

use crate::checker::{Judged, Shared};
use crate::planted::PlantedTables;

/// The one store of a simulation.
pub(crate) type SimulatedStore = LocalStore<PlantedTables>;

pub(crate) struct WatchedStore {
    /// Whose calls they are, for the log.
    pub(crate) name: String,
    pub(crate) store: Arc<SimulatedStore>,
    pub(crate) checker: Shared,
    pub(crate) fuse: Fuse,
}

/// Kills its instance at a chosen call: once before the store has it, once after.
pub(crate) struct Fuse {
    calls: AtomicU64,
    /// Counts two for each call: an odd number means after the store did it.
    blows_at: Option<u64>,
    slot: usize,
    blown: mpsc::UnboundedSender<usize>,
}

impl Fuse {
    pub(crate) fn new(blows_at: Option<u64>, slot: usize, blown: mpsc::UnboundedSender<usize>) -> Self {
        Self { calls: AtomicU64::new(0), blows_at, slot, blown }
    }

    async fn pass(&self) {
        if Some(self.calls.fetch_add(1, Ordering::Relaxed)) == self.blows_at
            && self.blown.send(self.slot).is_ok()
        {
            // The receiver aborts every task of this instance, this one included.
            std::future::pending::<()>().await;
        }
    }
}

impl WatchedStore {
    async fn watch<V: Judged>(&self, verb: V) -> Result<V::Answer, StoreError> {
        self.fuse.pass().await;
        let answer = self.store.ask(verb.clone().into_request()).await;
        let answer = answer.map(|answer| V::unwrap(answer).expect("a store answers the verb that was asked"));
        self.checker.with(|checker| {
            checker.called((&self.name, V::NAME), &answer);
            verb.judge(checker, &answer);
            checker.check_live();
        });
        self.fuse.pass().await;
        answer
    }
}

macro_rules! watch {
    (($store:ident, $request:ident) reads { $($read:ident),* } writes { $($write:ident),* }) => {
        match $request {
            $(Request::$read(verb) => $store.watch(verb).await.map(Answer::$read),)*
            $(Request::$write(verb) => $store.watch(verb).await.map(Answer::$write),)*
        }
    };
}

#[async_trait]
impl Backend for WatchedStore {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        for_each_verb!(watch!(self, request))
    }

    /// Every start is asked, where the checker sees it.
    fn refusal(&self, _: &Admit) -> Option<StartOutcome> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }
}
