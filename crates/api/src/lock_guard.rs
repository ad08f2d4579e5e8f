//! Work under a lock: the lock is asked for, renewed while the work goes on, and given back; when it may be lost, the
//! work is dropped.
//!
//! This makes it likely that nobody else works at the same time. What makes it certain that a late write does not count
//! is the fence of the grant, compared where the writes are.

use std::pin::pin;
use std::time::Duration;

use interlock_model::lock::{Inventory, LockMode, Trust};
use interlock_model::retry::{Backoff, Seed};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockRequest, Resource};
use tokio::time::Instant;

use crate::Code;
use crate::client::{Client, Error};
use crate::lease::{self, End, Lease, Renewal};
use crate::locks::{AcquireRequest, LockGrant, ReleaseRequest, RenewRequest};

/// How often a call whose answer was lost is made before its outcome is called unknown.
const CALLS_MAX: u32 = 3;

const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), multiplier: 2.0, cap: Duration::from_secs(2) };

/// Which lock, for whom and for how long.
#[derive(Debug, Clone)]
pub struct LockSpec {
    pub resource: Resource,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// How long the lock outlives a holder that dies. It is renewed three times as often.
    pub ttl: Duration,
    /// How long to stand in line, up to a minute.
    pub wait: Duration,
    /// The name under which the lock was asked for before, should it be the same intent. Made up if absent.
    pub request: Option<LockRequest>,
}

impl LockSpec {
    /// Exclusive, now or not at all, with the lease of the inventory.
    #[must_use]
    pub fn new(resource: Resource, owner: LockOwner) -> Self {
        let ttl = Inventory::user().ttl;
        Self { resource, owner, mode: LockMode::Exclusive, ttl, wait: Duration::ZERO, request: None }
    }
}

/// What became of work under a lock.
#[derive(Debug)]
#[must_use]
pub enum Guarded<T> {
    /// The work came to its end while the lock was held.
    Done(T),
    /// The lock was lost before the work had ended, which was dropped; or had gone when the ended work gave it back, and
    /// then there is a value.
    Lost { grant: LockGrant, loss: LockLoss, value: Option<T> },
    /// The lock was refused: nothing was begun.
    NotAcquired(Error),
    /// Whether the lock was granted is not known. Nothing was begun, and it ends by itself.
    Unknown(Error),
}

/// Why a lock is no longer ours.
#[derive(Debug, thiserror::Error)]
pub enum LockLoss {
    /// It ran out, or was taken away.
    #[error("it is no longer ours: {0}")]
    Refused(Error),
    #[error("its renewals failed too often in a row")]
    RenewalsFailed,
    /// Somebody else may have it at any moment.
    #[error("no renewal got through before its lease was over")]
    LeaseRanOut,
}

impl Client {
    /// Does `work` while it holds a lock. The grant that the work gets has the fence for its writes.
    ///
    /// Work that keeps its thread busy without awaiting anything cannot be dropped, and is not renewed for.
    /// Dropping this future drops the work, renews no more, and tries to give the lock back in the background.
    pub async fn with_lock<T, F>(&self, spec: LockSpec, work: impl FnOnce(LockGrant) -> F) -> Guarded<T>
    where
        F: Future<Output = T>,
    {
        let (mut hold, lease) = match begin(self, &spec).await {
            Ok(held) => held,
            Err(NotBegun::Refused(error)) => return Guarded::NotAcquired(error),
            Err(NotBegun::Unknown(error)) => return Guarded::Unknown(error),
        };
        let grant = hold.grant.clone();
        let worked = {
            let work = pin!(work(grant.clone()));
            tokio::select! {
                // Where both have come, the work may have ended after its time.
                biased;
                loss = hold.keep(lease) => Err(loss),
                value = work => Ok(value),
            }
        };
        match worked {
            Ok(value) => match hold.release().await {
                Ok(()) => Guarded::Done(value),
                Err(loss) => Guarded::Lost { grant, loss, value: Some(value) },
            },
            Err(loss) => {
                // What was refused is gone; what may still be ours is given back by the drop.
                hold.is_over = matches!(loss, LockLoss::Refused(_));
                Guarded::Lost { grant, loss, value: None }
            }
        }
    }
}

enum NotBegun {
    Refused(Error),
    Unknown(Error),
}

impl NotBegun {
    fn from_error(error: Error) -> Self {
        let is_known_not_done = match &error {
            Error::Problem(problem) => problem.code != Code::OutcomeUnknown,
            Error::Unreachable { .. } | Error::Malformed { .. } => false,
            Error::Settings(_) => true,
        };
        if is_known_not_done { Self::Refused(error) } else { Self::Unknown(error) }
    }
}

/// Asks for the lock until it is known what came of it, or too often.
async fn begin(client: &Client, spec: &LockSpec) -> Result<(Hold, Lease), NotBegun> {
    let until = Instant::now() + spec.wait;
    let request = spec.request.clone().unwrap_or_else(made_up_request);
    let mut calls = 0;
    loop {
        calls += 1;
        let asked_at = Instant::now();
        let asked = AcquireRequest {
            resource: spec.resource.clone(),
            owner: spec.owner.clone(),
            mode: spec.mode,
            ttl_ms: millis(spec.ttl),
            wait_ms: millis(until.saturating_duration_since(asked_at)),
            request_id: Some(request.clone()),
            token: None,
        };
        match client.acquire_lock(&asked).await {
            Ok(grant) => {
                let hold = Hold { client: client.clone(), grant, ttl: spec.ttl, is_over: false };
                let was_quick = asked_at.elapsed() <= Trust::margin(spec.ttl);
                if was_quick && calls == 1 && spec.request.is_none() {
                    return Ok((hold, lease_of(asked_at, spec.ttl)));
                }
                return hold.confirm().await;
            }
            Err(error) if worth_repeating(&error) && calls < CALLS_MAX => pause(&error, calls).await,
            Err(error) => return Err(NotBegun::from_error(error)),
        }
    }
}

fn lease_of(asked_at: Instant, term: Duration) -> Lease {
    Lease { asked_at, term, failures_max: Inventory::user().failures_max }
}

fn made_up_request() -> LockRequest {
    let number: u128 = rand::random();
    format!("g-{number:032x}").parse().expect("hexadecimal digits make a request id")
}

fn worth_repeating(error: &Error) -> bool {
    error.is_passing() && error.code() != Some(Code::LockQuota)
}

async fn pause(error: &Error, calls: u32) {
    let jitter = BACKOFF.full_jitter(calls, Seed::new(rand::random()));
    tokio::time::sleep(error.retry_after().unwrap_or(jitter)).await;
}

/// One hold. Dropped before its end, it is given back in the background, and ends by itself if that fails.
struct Hold {
    client: Client,
    grant: LockGrant,
    ttl: Duration,
    is_over: bool,
}

impl Hold {
    /// The grant may be old: it was waited for, or its first answer was lost. A renewal tells whether it still holds, and
    /// from when to count.
    async fn confirm(mut self) -> Result<(Self, Lease), NotBegun> {
        let asked_at = Instant::now();
        match self.renewal().await {
            Ok(_) => {
                let lease = lease_of(asked_at, self.ttl);
                Ok((self, lease))
            }
            Err(error) => {
                self.is_over = !error.is_passing();
                Err(NotBegun::from_error(error))
            }
        }
    }

    async fn renewal(&self) -> crate::client::Result<LockGrant> {
        let LockGrant { resource, token, .. } = self.grant.clone();
        self.client.renew_lock(&RenewRequest { resource, token, ttl_ms: millis(self.ttl) }).await
    }

    async fn keep(&self, lease: Lease) -> LockLoss {
        let renew = move || async move {
            match self.renewal().await {
                Ok(_) => Renewal::Renewed { term: self.ttl },
                Err(Error::Problem(problem)) if problem.code == Code::GateUnavailable => Renewal::Failed,
                Err(error) if error.is_passing() => Renewal::Unknown,
                Err(error) => Renewal::Over(LockLoss::Refused(error)),
            }
        };
        match lease::keep(lease, renew).await {
            End::Over(loss) => loss,
            End::RenewalsFailed => LockLoss::RenewalsFailed,
            End::RanOut => LockLoss::LeaseRanOut,
        }
    }

    /// Gives the lock back: again while the answer is lost, because released twice is released.
    async fn release(mut self) -> Result<(), LockLoss> {
        let mut calls = 0;
        loop {
            calls += 1;
            let Err(error) = self.client.release_lock(&self.words()).await else { break };
            if matches!(error.code(), Some(Code::StaleFence | Code::NotFound)) {
                self.is_over = true;
                return Err(LockLoss::Refused(error));
            }
            // Then it ends by itself, and nothing is lost by that but time.
            if !error.is_passing() || calls == CALLS_MAX {
                break;
            }
            pause(&error, calls).await;
        }
        self.is_over = true;
        Ok(())
    }

    fn words(&self) -> ReleaseRequest {
        ReleaseRequest { resource: self.grant.resource.clone(), token: self.grant.token.clone() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process ends: then the lease ends by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (client, words, ttl) = (self.client.clone(), self.words(), self.ttl);
        runtime.spawn(async move {
            // Later than that there is nothing left to give back.
            let _released = tokio::time::timeout(ttl, client.release_lock(&words)).await;
        });
    }
}
