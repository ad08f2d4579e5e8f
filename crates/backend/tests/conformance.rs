//! The in-memory reference keeps every rule.

use std::sync::Arc;

use interlock_backend::conformance::OnManualClock;
use interlock_backend::conformance::inspection::LocalRows;
use interlock_backend::memory;

interlock_backend::conformance_suite!(OnManualClock::new(memory_store()));

/// A store that keeps nothing stands for itself when it is "opened again".
fn memory_store() -> impl Fn(Arc<dyn interlock_model::Clock>) -> Arc<dyn LocalRows> + Send + Sync {
    let store = std::sync::OnceLock::<Arc<dyn LocalRows>>::new();
    move |clock| store.get_or_init(|| Arc::new(memory::store(clock))).clone()
}
