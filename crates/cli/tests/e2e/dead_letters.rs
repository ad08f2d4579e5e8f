//! Dead letters, written into the store: a job becomes one only after ten lost leases.

use std::path::Path;
use std::sync::Arc;

use interlock_backend::Store;
use interlock_backend::clock::SystemClock;
use interlock_backend::verbs::AddDeadLetter;
use interlock_model::Timestamp;
use interlock_model::dead_letter::{DeadLetter, LetterCode};

/// The store of an embedded server that does not run.
pub(crate) fn embedded_store(data: &Path) -> Store {
    let store = interlock_backend_embedded::open(data, Arc::new(SystemClock));
    Store::new(Arc::new(store.expect("the folder is free")))
}

pub(crate) async fn bury(store: &Store, tenant: &str, job: &str) {
    let dead_letter = DeadLetter {
        job: job.parse().unwrap(),
        topic: Some("build".parse().unwrap()),
        code: LetterCode::WorkerLost,
        reason: "10 dispatches lost their worker".to_owned(),
        attempts: 10,
        last_error: None,
        buried_at: Timestamp::from_millis(1_794_700_800_000),
        result: None,
    };
    let add = AddDeadLetter { tenant: tenant.parse().unwrap(), dead_letter, dead_letters_max: 10_000 };
    store.call(add).await.unwrap();
}
