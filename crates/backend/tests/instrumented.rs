//! The store counts every call by its verb and outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use interlock_backend::clock::SystemClock;
use interlock_backend::instrumented::{CallOutcome, VerbCalls};
use interlock_backend::verbs::{self, Admit, Answer, ListApiKeys, ReadDocument, Request, RevokeApiKey};
use interlock_backend::{Backend, Effect, Store, StoreError, memory};
use interlock_model::Fence;
use interlock_model::admission::StartOutcome;

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

/// The verbs that were called, each with its only outcome.
fn outcomes(store: &Store) -> Vec<(&'static str, CallOutcome)> {
    let only = |calls: VerbCalls| calls.outcomes().find(|(_, count)| *count == 1).expect("one call").0;
    store.calls().counted().into_iter().map(|(verb, calls)| (verb, only(calls))).collect()
}

#[tokio::test]
async fn a_call_is_counted_by_its_verb_and_outcome() {
    let store = Store::new(Arc::new(memory::store(Arc::new(SystemClock))));
    assert_eq!(store.call(ListApiKeys).await, Ok(Vec::new()));
    let missing = store.call(RevokeApiKey { id: "missing".parse().unwrap() }).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    assert_eq!(
        outcomes(&store),
        [("list_api_keys", CallOutcome::Ok), ("revoke_api_key", CallOutcome::NotFound)]
    );
    assert_eq!(store.commands_sent(), 2);
    assert_eq!(store.reader().call(ListApiKeys).await, Ok(Vec::new()));
    let (_, calls) = store.calls().counted()[0];
    assert_eq!((calls.count(), calls.buckets().map(|(_, count)| count).sum::<u64>()), (2, 2));
}

#[tokio::test]
async fn every_error_has_an_outcome() {
    let unavailable = |effect| StoreError::Unavailable { action: "ask", effect, reason: "down".to_owned() };
    let damaged = StoreError::Damaged { table: "heads", key: "a".to_owned(), reason: "no JSON".to_owned() };
    let errors = [
        (StoreError::not_found("run", 1), CallOutcome::NotFound),
        (StoreError::Fenced { held: Fence::new(1), current: Fence::new(2) }, CallOutcome::Fenced),
        (StoreError::Conflict("no".to_owned()), CallOutcome::Conflict),
        (unavailable(Effect::NotDone), CallOutcome::Unavailable),
        (unavailable(Effect::Unknown), CallOutcome::Unavailable),
        (damaged, CallOutcome::Damaged),
    ];
    for (error, outcome) in errors {
        let store = Store::new(Arc::new(Failing(error.clone())));
        let name = interlock_backend::documents::DocumentName::Contention;
        assert_eq!(store.call(ReadDocument { name }).await, Err(error));
        assert_eq!(outcomes(&store), [("read_document", outcome)]);
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
