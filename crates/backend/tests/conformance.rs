//! The in-memory reference keeps every rule.

use std::sync::Arc;

use interlock_backend::conformance::inspection::LocalRows;
use interlock_backend::conformance::{OnManualClock, versus_memory};
use interlock_backend::{memory, verbs};

interlock_backend::conformance_suite!(OnManualClock::new(memory_store()));

/// A store that keeps nothing stands for itself when it is "opened again".
fn memory_store() -> impl Fn(Arc<dyn interlock_model::Clock>) -> Arc<dyn LocalRows> + Send + Sync {
    let store = std::sync::OnceLock::<Arc<dyn LocalRows>>::new();
    move |clock| store.get_or_init(|| Arc::new(memory::store(clock))).clone()
}

#[tokio::test]
async fn random_walks_call_every_verb_and_every_writing_verb_changes_something() {
    let reached = versus_memory::coverage(0..96, versus_memory::CALLS).await;
    let missed = |verbs: &[&'static str], reached: &std::collections::BTreeSet<&str>| {
        verbs.iter().filter(|verb| !reached.contains(**verb)).copied().collect::<Vec<_>>()
    };
    assert_eq!(missed(verbs::NAMES, &reached.called), [""; 0], "never called");
    assert_eq!(missed(verbs::WRITE_NAMES, &reached.changed), [""; 0], "called, and never changed anything");
}
