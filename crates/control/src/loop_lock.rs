//! The lock of a loop that one replica at a time runs: never released, and renewed by the same holder at each tick.

use std::future::Future;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::locks::{AcquireLock, Acquired};
use interlock_model::lock::{Grant, LockMode, LockName, LockRow, StageLock};
use interlock_model::{Fence, LockRequest, LockToken};
use tokio::time::Instant;

use crate::lease::{self, Loss, Term, renew_lock};
use crate::process::Process;

/// One replica's view of a loop's lock. It keeps its token, so that the holder ticks each period.
pub struct LoopLock {
    name: LockName,
    row: LockRow,
    /// Always the same: a grant that we never heard of is ours when we ask again.
    request: LockRequest,
    token: Option<LockToken>,
    /// When the lease of another replica expires, unless it ticks again.
    free_in: Option<Duration>,
}

/// Permission to tick once.
#[must_use]
pub struct TickLease<'a> {
    process: &'a Process,
    name: &'a LockName,
    token: LockToken,
    fence: Fence,
    term: Term,
}

impl LoopLock {
    pub fn new(process: &Process, stage: StageLock) -> Self {
        let row = process.settings.locks.stage(stage);
        Self {
            name: LockName::Stage(stage),
            row,
            request: process.identity.lock_request(),
            token: None,
            free_in: None,
        }
    }

    /// Permission to tick, if this process has the lock or gets it now. None: another has it.
    pub async fn tick<'a>(&'a mut self, process: &'a Process) -> Result<Option<TickLease<'a>>, StoreError> {
        let asked_at = Instant::now();
        let grant = match self.keep(process).await? {
            Some(grant) => grant,
            None => match self.acquire(process).await? {
                Some(grant) => grant,
                None => return Ok(None),
            },
        };
        let (ttl, failures_max) = (self.row.ttl, self.row.failures_max.unwrap_or(u32::MAX));
        let term = Term { asked_at, ttl, failures_max };
        Ok(Some(TickLease { process, name: &self.name, token: grant.token, fence: grant.fence, term }))
    }

    /// When it is worth asking again, after another was found to have it: a holder that lives has ticked again by then.
    pub fn free_in(&self) -> Option<Duration> {
        self.free_in
    }

    /// Another replica holds the lock by now.
    pub fn give_up(&mut self) {
        self.token = None;
    }

    /// The grant that we have, for its whole time from now on.
    async fn keep(&mut self, process: &Process) -> Result<Option<Grant>, StoreError> {
        let Some(token) = &self.token else { return Ok(None) };
        match renew_lock(process, &self.name, token, self.row.ttl).await {
            Ok(grant) => Ok(Some(grant)),
            Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => {
                self.token = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn acquire(&mut self, process: &Process) -> Result<Option<Grant>, StoreError> {
        let call = process.identity.lock_token();
        let acquire = AcquireLock {
            lock: self.name.clone(),
            owner: process.instance.as_str().parse().expect("the name of an instance is an owner's, too"),
            mode: LockMode::Exclusive,
            ttl: self.row.ttl,
            request: self.request.clone(),
            call: call.clone(),
            held: None,
            stay: None,
            limits: process.settings.lock_limits,
        };
        let grant = match process.pass_on_turn(&self.name, process.call(acquire.clone()).await?) {
            Acquired::Granted(grant) => grant,
            Acquired::Waiting(busy) | Acquired::Refused(busy) => {
                self.free_in = busy.may_change_in;
                return Ok(None);
            }
            Acquired::OverQuota { .. } => return Ok(None),
        };
        self.token = Some(grant.token.clone());
        // What was granted before, unheard, has only the rest of its time.
        if grant.token == call { Ok(Some(grant)) } else { self.keep(process).await }
    }
}

impl TickLease<'_> {
    /// To be presented by what the tick writes.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Runs one tick, which is dropped once another may have the lock.
    pub async fn guard<T>(self, work: impl Future<Output = T>) -> Result<T, Loss> {
        let Self { process, name, token, term, .. } = &self;
        let renew = || async {
            let renewed = renew_lock(process, name, token, term.ttl).await;
            lease::renewal(renewed.map(|_| term.ttl))
        };
        lease::guard(process, *term, renew, work).await
    }
}
