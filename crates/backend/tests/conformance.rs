//! The in-memory reference keeps every rule.

use std::sync::Arc;

use interlock_backend::conformance::OnManualClock;
use interlock_backend::{Store, memory};

interlock_backend::conformance_suite!(OnManualClock::new(memory_store()));

/// A store that keeps nothing stands for itself when it is "opened again".
fn memory_store() -> impl Fn(Arc<dyn interlock_model::Clock>) -> Arc<dyn Store> + Send + Sync {
    let store = std::sync::OnceLock::<Arc<dyn Store>>::new();
    move |clock| store.get_or_init(|| Arc::new(memory::store(clock))).clone()
}
