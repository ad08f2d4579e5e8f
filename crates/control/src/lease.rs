//! Leases of the control plane's own: renewed in the store beside the work (see [`interlock_lease`]).

use std::future::Future;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::verbs::RenewLock;
pub use interlock_lease::Term;
use interlock_model::LockToken;
use interlock_model::lock::{Grant, JITTER_MAX, LockName};

use crate::journal;
use crate::process::Process;

pub type Renewal = interlock_lease::Renewal<String>;
pub type Loss = interlock_lease::Loss<String>;

/// Runs `work`, which is dropped once its lease cannot be trusted.
pub async fn guard<T, R>(
    process: &Process,
    term: Term,
    renew: impl FnMut() -> R,
    work: impl Future<Output = T>,
) -> Result<T, Loss>
where
    R: Future<Output = Renewal>,
{
    let jitter = || u32::try_from(process.identity.between(0, JITTER_MAX.into())).unwrap_or(0);
    interlock_lease::guard(term, jitter, renew, work).await
}

/// What the store's answer to a renewal means for the lease.
pub fn renewal(answer: Result<Duration, StoreError>) -> Renewal {
    match answer {
        Ok(ttl) => Renewal::Extended(ttl),
        Err(error @ (StoreError::Fenced { .. } | StoreError::NotFound { .. })) => {
            Renewal::Refused(error.to_string())
        }
        Err(
            StoreError::Unavailable { .. }
            | StoreError::Conflict(_)
            | StoreError::QuotaReached { .. }
            | StoreError::Damaged { .. },
        ) => Renewal::Failed,
    }
}

pub(crate) async fn renew_lock(
    process: &Process,
    lock: &LockName,
    token: &LockToken,
    ttl: Duration,
) -> Result<Grant, StoreError> {
    let renewed = process.call(RenewLock { lock: lock.clone(), token: token.clone(), ttl }).await;
    let renewed = renewed.map(|turn| process.pass_on_turn(lock, turn));
    renewed.inspect_err(|error| journal::lock_refused(lock, error))
}
