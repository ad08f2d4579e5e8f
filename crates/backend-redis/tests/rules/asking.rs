//! Asking for locks, and reading them as operators do.

use interlock_backend::verbs::ListLockHistory;
use std::time::Duration;

use interlock_backend::locks::{AcquireLock, Acquired, Busy};
use interlock_backend::{PageRequest, Store};
use interlock_model::lock::{Grant, LockEvent, LockLimits, LockMode, LockName};
use interlock_servers::Redis;
use serde_json::Value;

use super::{LEASE, acme, name};

pub(crate) fn door() -> LockName {
    LockName::Of(acme(), name("deploy/prod:eu%1"))
}

/// Where its users read it.
pub(crate) const DOOR: &str = "cordum:lock:{acme}:deploy/prod:eu%1";

pub(crate) fn ask(lock: &LockName, who: &str) -> AcquireLock {
    AcquireLock {
        lock: lock.clone(),
        owner: name(who),
        mode: LockMode::Exclusive,
        ttl: LEASE,
        request: name(&format!("request-of-{who}")),
        call: name(&format!("call-of-{who}")),
        held: None,
        stay: None,
        limits: LockLimits::default(),
    }
}

pub(crate) fn waiting(lock: &LockName, who: &str) -> AcquireLock {
    AcquireLock { stay: Some(Duration::from_secs(20)), ..ask(lock, who) }
}

pub(crate) async fn granted(store: &Store, asked: &AcquireLock) -> Grant {
    let answer = store.call(asked.clone()).await.unwrap().answer;
    let Acquired::Granted(grant) = answer else { panic!("expected a grant, got {answer:?}") };
    grant
}

pub(crate) async fn refused(store: &Store, asked: &AcquireLock) -> Busy {
    let answer = store.call(asked.clone()).await.unwrap().answer;
    let Acquired::Refused(busy) = answer else { panic!("expected a refusal, got {answer:?}") };
    busy
}

pub(crate) async fn history(store: &Store, lock: &LockName) -> Vec<LockEvent> {
    store
        .call(ListLockHistory { lock: lock.clone(), page: PageRequest { limit: 100, after: None } })
        .await
        .unwrap()
        .items
}

/// What `GET` shows, or null if there is nothing.
pub(crate) async fn shown(server: &Redis, key: &str) -> Value {
    let text = server.command(&["GET", key]).await.unwrap();
    if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
}

/// Whether it ends by itself within `term`.
pub(crate) async fn ends_within(server: &Redis, key: &str, term: Duration) -> bool {
    let left: i64 = server.command(&["PTTL", key]).await.unwrap().parse().unwrap();
    u64::try_from(left).is_ok_and(|left| Duration::from_millis(left) <= term)
}
