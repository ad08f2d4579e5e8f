//! Work under a lock: the lock is acquired, renewed during the work, and released; if it may be lost, the work is
//! dropped.
//!
//! The lock alone only makes it likely that no two holders work at once. The fence of the grant makes it certain that a
//! late write is rejected, if the target of the writes compares it.

use std::time::Duration;

use interlock_lease::{Loss, Renewal, Term};
use interlock_model::lock::{FAILURES_MAX, Inventory, JITTER_MAX, LockMode, Trust};
use interlock_model::retry::{Backoff, Seed};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockRequest, Resource};
use tokio::time::Instant;

use crate::Code;
use crate::client::{Client, Error};
use crate::locks::{AcquireRequest, LockGrant, ReleaseRequest, RenewRequest};

/// How often a call is made before its outcome is reported as unknown.
const CALLS_MAX: u32 = 3;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), multiplier: 2.0, cap: Duration::from_secs(2) };

/// Which lock, for whom and for how long.
#[derive(Debug, Clone)]
pub struct LockSpec {
    pub resource: Resource,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// Lease duration. It is renewed three times per lease.
    pub ttl: Duration,
    /// How long to wait for the lock, up to a minute.
    pub wait: Duration,
    /// Id of an earlier request that this one repeats. Generated if absent.
    pub request: Option<LockRequest>,
}

impl LockSpec {
    /// Exclusive, without waiting, with the default lease.
    pub fn new(resource: Resource, owner: LockOwner) -> Self {
        let ttl = Inventory::user().ttl;
        Self { resource, owner, mode: LockMode::Exclusive, ttl, wait: Duration::ZERO, request: None }
    }
}

/// The outcome of work under a lock.
#[derive(Debug)]
#[must_use]
pub enum Guarded<T> {
    /// The work ended while the lock was held.
    Done(T),
    /// The lock was lost before the work ended, which was dropped; or, with a value, before the release after the work.
    Lost { grant: LockGrant, loss: LockLoss, value: Option<T> },
    /// The lock was refused, and the work was not started.
    NotAcquired(Error),
    /// Whether the lock was granted is unknown. The work was not started; a lease expires by itself.
    Unknown(Error),
}

/// Why a lock was lost.
#[derive(Debug, thiserror::Error)]
pub enum LockLoss {
    /// It expired, or was released by force.
    #[error("the lease has ended: {0}")]
    Refused(Error),
    #[error("too many renewals failed in a row")]
    RenewalsFailed,
    /// Another owner may get it at any moment.
    #[error("the lease expired before a renewal got through")]
    LeaseExpired,
}

impl Client {
    /// Does `work` while it holds a lock. The grant has the fence for its writes.
    ///
    /// Work that blocks its thread cannot be dropped, and its lock is not renewed meanwhile. Dropping this future drops
    /// the work, stops renewing, and releases the lock in the background.
    pub async fn with_lock<T, F>(&self, spec: LockSpec, work: impl FnOnce(LockGrant) -> F) -> Guarded<T>
    where
        F: Future<Output = T>,
    {
        let (mut held, term) = match acquire(self, &spec).await {
            Ok(acquired) => acquired,
            Err(AcquireError::Refused(error)) => return Guarded::NotAcquired(error),
            Err(AcquireError::Unknown(error)) => return Guarded::Unknown(error),
        };
        let grant = held.grant.clone();
        match held.guard(term, work(grant.clone())).await {
            Ok(value) => match held.release().await {
                Ok(()) => Guarded::Done(value),
                Err(loss) => Guarded::Lost { grant, loss, value: Some(value) },
            },
            Err(loss) => {
                // A lease that may still exist is released by the drop.
                held.is_over = matches!(loss, LockLoss::Refused(_));
                Guarded::Lost { grant, loss, value: None }
            }
        }
    }
}

enum AcquireError {
    Refused(Error),
    Unknown(Error),
}

impl AcquireError {
    fn from_error(error: Error) -> Self {
        let is_known_not_done = match &error {
            Error::Problem(problem) => problem.code != Code::OutcomeUnknown,
            Error::Unreachable { .. } | Error::Malformed { .. } => false,
            Error::Settings(_) => true,
        };
        if is_known_not_done { Self::Refused(error) } else { Self::Unknown(error) }
    }
}

/// Repeats the request until its outcome is known, up to [`CALLS_MAX`] times.
async fn acquire(client: &Client, spec: &LockSpec) -> Result<(HeldLock, Term), AcquireError> {
    let until = Instant::now() + spec.wait;
    let request = spec.request.clone().unwrap_or_else(generate_request);
    let mut calls = 0;
    loop {
        calls += 1;
        let asked_at = Instant::now();
        let acquire = AcquireRequest {
            resource: spec.resource.clone(),
            owner: spec.owner.clone(),
            mode: spec.mode,
            ttl_ms: millis(spec.ttl),
            wait_ms: millis(until.saturating_duration_since(asked_at)),
            request_id: Some(request.clone()),
            token: None,
        };
        match client.acquire_lock(&acquire).await {
            Ok(grant) => {
                let held = HeldLock { client: client.clone(), grant, ttl: spec.ttl, is_over: false };
                let was_quick = asked_at.elapsed() <= Trust::margin(spec.ttl);
                if was_quick && calls == 1 && spec.request.is_none() {
                    return Ok((held, term_of(asked_at, spec.ttl)));
                }
                return held.confirm().await;
            }
            Err(error) if is_worth_repeating(&error) && calls < CALLS_MAX => pause(&error, calls).await,
            Err(error) => return Err(AcquireError::from_error(error)),
        }
    }
}

fn term_of(asked_at: Instant, ttl: Duration) -> Term {
    Term { asked_at, ttl, failures_max: FAILURES_MAX }
}

pub(crate) fn renewal_jitter() -> u32 {
    rand::random_range(0..=JITTER_MAX)
}

fn generate_request() -> LockRequest {
    let number: u128 = rand::random();
    format!("g-{number:032x}").parse().expect("hexadecimal digits make a request id")
}

fn is_worth_repeating(error: &Error) -> bool {
    error.is_transient() && error.code() != Some(Code::LockQuota)
}

async fn pause(error: &Error, calls: u32) {
    let jitter = BACKOFF.full_jitter(calls, Seed::new(rand::random()));
    tokio::time::sleep(error.retry_after().unwrap_or(jitter)).await;
}

/// A lock that this guard holds. Dropped before its end, it is released in the background, or else expires.
struct HeldLock {
    client: Client,
    grant: LockGrant,
    ttl: Duration,
    is_over: bool,
}

impl HeldLock {
    /// A grant that was waited for or repeated may be old. A renewal shows whether it still holds, and from when.
    async fn confirm(mut self) -> Result<(Self, Term), AcquireError> {
        let asked_at = Instant::now();
        match self.renew().await {
            Ok(_) => {
                let term = term_of(asked_at, self.ttl);
                Ok((self, term))
            }
            Err(error) => {
                self.is_over = !error.is_transient();
                Err(AcquireError::from_error(error))
            }
        }
    }

    async fn renew(&self) -> crate::client::Result<LockGrant> {
        let LockGrant { resource, token, .. } = self.grant.clone();
        self.client.renew_lock(&RenewRequest { resource, token, ttl_ms: millis(self.ttl) }).await
    }

    /// Renews the lock beside the work, which is dropped when the lock may be lost.
    async fn guard<T>(&self, term: Term, work: impl Future<Output = T>) -> Result<T, LockLoss> {
        let renew = move || async move {
            match self.renew().await {
                Ok(_) => Renewal::Extended(self.ttl),
                Err(error) if error.is_transient() => Renewal::Failed,
                Err(error) => Renewal::Refused(error),
            }
        };
        interlock_lease::guard(term, renewal_jitter, renew, work).await.map_err(|loss| match loss {
            Loss::Refused(error) => LockLoss::Refused(error),
            Loss::Failures(_) => LockLoss::RenewalsFailed,
            Loss::Deadline => LockLoss::LeaseExpired,
        })
    }

    /// Releases the lock, repeatedly while the answer is lost: a second release does nothing.
    async fn release(mut self) -> Result<(), LockLoss> {
        let mut calls = 0;
        loop {
            calls += 1;
            let Err(error) = self.client.release_lock(&self.release_request()).await else { break };
            if matches!(error.code(), Some(Code::StaleFence | Code::NotFound)) {
                self.is_over = true;
                return Err(LockLoss::Refused(error));
            }
            // Otherwise the lease expires, which costs only time.
            if !error.is_transient() || calls == CALLS_MAX {
                break;
            }
            pause(&error, calls).await;
        }
        self.is_over = true;
        Ok(())
    }

    fn release_request(&self) -> ReleaseRequest {
        ReleaseRequest { resource: self.grant.resource.clone(), token: self.grant.token.clone() }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process ends, and the lease expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (client, request, ttl) = (self.client.clone(), self.release_request(), self.ttl);
        runtime.spawn(async move {
            // After that the lease has expired.
            let _released = tokio::time::timeout(ttl, client.release_lock(&request)).await;
        });
    }
}
