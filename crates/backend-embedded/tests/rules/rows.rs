//! Rows to write and read in tests, and a lock to ask for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::clock::SystemClock;
use interlock_backend::local::{Changes, Decision, Executor, Table};
use interlock_backend::locks::AcquireLock;
use interlock_backend_embedded::{EmbeddedTables, OpenError};
use interlock_model::lock::{LockLimits, LockMode, LockName};

pub(crate) fn open(folder: &Path) -> Result<EmbeddedTables, OpenError> {
    EmbeddedTables::open(folder, Arc::new(SystemClock))
}

/// Tables in a new folder, which must live as long as they do.
pub(crate) fn fresh() -> (EmbeddedTables, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (open(folder.path()).unwrap(), folder)
}

pub(crate) async fn put(
    tables: &EmbeddedTables,
    table: Table,
    key: &str,
    value: u64,
) -> Result<(), StoreError> {
    let key = key.to_owned();
    let decide = move |_: &dyn interlock_backend::local::View, _| {
        let mut changes = Changes::default();
        changes.put(table, key, &value);
        Ok(Decision { answer: (), changes })
    };
    tables.write("put a row", decide).await
}

pub(crate) async fn get(tables: &EmbeddedTables, table: Table, key: &str) -> Option<u64> {
    let key = key.to_owned();
    let value = tables.read("get a row", move |view, _| view.get(table, &key)).await.unwrap();
    value.map(|value| value.parse().unwrap())
}

/// A request for the lock `door`.
pub(crate) fn ask(who: &str, ttl: Duration, stay: Option<Duration>) -> AcquireLock {
    AcquireLock {
        lock: door(),
        owner: who.parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl,
        request: format!("request-of-{who}").parse().unwrap(),
        call: format!("call-of-{who}").parse().unwrap(),
        held: None,
        stay,
        limits: LockLimits::default(),
    }
}

pub(crate) fn door() -> LockName {
    LockName::Of("acme".parse().unwrap(), "door".parse().unwrap())
}
