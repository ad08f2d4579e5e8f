//! The instrumented layer reports every call with its outcome, and changes nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::clock::SystemClock;
use interlock_backend::instrumented::{CallObserver, CallOutcome, Instrumented};
use interlock_backend::verbs::{self, Admit, Answer, ListApiKeys, ReadDocument, Request, RevokeApiKey};
use interlock_backend::{Backend, Effect, Store, StoreError, memory};
use interlock_model::Fence;
use interlock_model::admission::StartOutcome;

#[derive(Default)]
struct Calls(Mutex<Vec<(&'static str, CallOutcome)>>);

impl CallObserver for Calls {
    fn called(&self, verb: &'static str, outcome: CallOutcome, _: Duration) {
        self.0.lock().expect("no test panics while it holds the lock").push((verb, outcome));
    }
}

/// Answers every call with the same error.
struct Failing(StoreError);

#[async_trait]
impl Backend for Failing {
    async fn ask(&self, _: Request) -> Result<Answer, StoreError> {
        Err(self.0.clone())
    }

    fn refusal(&self, _: &Admit) -> Option<StartOutcome> {
        None
    }

    fn commands_sent(&self) -> u64 {
        7
    }
}

fn instrumented(backend: impl Backend + 'static) -> (Store, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    (Store::new(Arc::new(Instrumented::new(Arc::new(backend), calls.clone()))), calls)
}

#[tokio::test]
async fn a_call_is_reported_with_its_verb_and_answered_as_without_the_layer() {
    let (store, calls) = instrumented(memory::store(Arc::new(SystemClock)));
    assert_eq!(store.call(ListApiKeys).await, Ok(Vec::new()));
    let missing = store.call(RevokeApiKey { id: "missing".parse().unwrap() }).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    let expected = [("list_api_keys", CallOutcome::Ok), ("revoke_api_key", CallOutcome::Refused)];
    assert_eq!(*calls.0.lock().unwrap(), expected);
    assert_eq!(store.commands_sent(), 2);
}

#[tokio::test]
async fn every_error_has_an_outcome() {
    let unavailable = |effect| StoreError::Unavailable { action: "ask", effect, reason: "down".to_owned() };
    let damaged = StoreError::Damaged { table: "heads", key: "a".to_owned(), reason: "no JSON".to_owned() };
    let errors = [
        (StoreError::not_found("run", 1), CallOutcome::Refused),
        (StoreError::Fenced { held: Fence::new(1), current: Fence::new(2) }, CallOutcome::Refused),
        (StoreError::Conflict("no".to_owned()), CallOutcome::Refused),
        (unavailable(Effect::NotDone), CallOutcome::NotDone),
        (unavailable(Effect::Unknown), CallOutcome::Unknown),
        (damaged, CallOutcome::Damaged),
    ];
    for (error, outcome) in errors {
        let (store, calls) = instrumented(Failing(error.clone()));
        let name = interlock_backend::documents::DocumentName::Contention;
        assert_eq!(store.call(ReadDocument { name }).await, Err(error));
        assert_eq!(*calls.0.lock().unwrap(), [("read_document", outcome)]);
        assert_eq!(store.commands_sent(), 7);
    }
}

#[test]
fn labels_are_unique() {
    let outcomes: BTreeSet<_> = CallOutcome::ALL.map(CallOutcome::name).into_iter().collect();
    assert_eq!(outcomes.len(), CallOutcome::ALL.len());
    let names: BTreeSet<_> = verbs::NAMES.iter().collect();
    assert_eq!(names.len(), verbs::NAMES.len(), "two verbs have one name");
}
