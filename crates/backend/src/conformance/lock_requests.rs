//! What the rules about locks act with.

use crate::verbs::ListLockHistory;
use std::time::Duration;

use interlock_model::LockRequest;
use interlock_model::lock::{Grant, LockEvent, LockLimits, LockMode, LockName};

use super::scene::{acme, name};
use crate::locks::{AcquireLock, Acquired, Busy, Turn};
use crate::{PageRequest, Store};

pub(super) const TTL: Duration = Duration::from_millis(400);
pub(super) const SILENCE: Duration = Duration::from_secs(1);

pub(super) fn door() -> LockName {
    LockName::Of(acme(), name("deploy/prod:eu%1"))
}

/// A request by the owner of the same name; each call of a request has its own number.
pub(super) fn ask(lock: &LockName, who: &str) -> AcquireLock {
    AcquireLock {
        lock: lock.clone(),
        owner: name(who),
        mode: LockMode::Exclusive,
        ttl: TTL,
        request: name(&format!("request-of-{who}")),
        call: name(&format!("call-of-{who}")),
        held: None,
        stay: None,
        limits: LockLimits::default(),
    }
}

pub(super) fn shared(lock: &LockName, who: &str) -> AcquireLock {
    AcquireLock { mode: LockMode::Shared, ..ask(lock, who) }
}

pub(super) fn waiting(acquire: AcquireLock) -> AcquireLock {
    AcquireLock { stay: Some(SILENCE), ..acquire }
}

pub(super) async fn acquire(store: &Store, acquire: &AcquireLock) -> Turn<Acquired> {
    store.call(acquire.clone()).await.expect("the store is up")
}

pub(super) async fn granted(store: &Store, asked: &AcquireLock) -> Grant {
    match acquire(store, asked).await.answer {
        Acquired::Granted(grant) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

pub(super) async fn refused(store: &Store, asked: &AcquireLock) -> Busy {
    match acquire(store, asked).await.answer {
        Acquired::Refused(busy) => busy,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

pub(super) async fn queued_request(store: &Store, asked: &AcquireLock) -> Busy {
    match acquire(store, asked).await.answer {
        Acquired::Waiting(busy) => busy,
        other => panic!("expected a place in the queue, got {other:?}"),
    }
}

pub(super) async fn history(store: &Store, lock: &LockName) -> Vec<LockEvent> {
    let page = PageRequest { limit: 500, after: None };
    store
        .call(ListLockHistory { lock: lock.clone(), page: page.clone() })
        .await
        .expect("the store is up")
        .items
}

/// Whose turn it is said to be, if it is the turn of the owner of this name.
pub(super) fn whose(owner: &str) -> LockRequest {
    name(&format!("request-of-{owner}"))
}
