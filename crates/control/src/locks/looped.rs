//! A lock on a loop that one replica at a time runs: held for its time, never given back, and the same holder's again.

use std::future::Future;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::locks::{Acquire, Acquired};
use interlock_model::lock::{Grant, LockMode, LockName, LockRow, StageLock};
use interlock_model::{Fence, LockRequest, LockToken};
use tokio::time::Instant;

use super::lease::{Lease, Loss, Renewal, Term, guarded};
use crate::service::Control;

/// One replica's way to the lock of a loop. It remembers its token, so that its holder ticks each period.
pub struct LoopLock {
    name: LockName,
    row: LockRow,
    /// Always the same: a grant that we never heard of is ours when we ask again.
    request: LockRequest,
    token: Option<LockToken>,
    /// When another's hold ends, unless it ticks again.
    free_in: Option<Duration>,
}

/// Leave to tick once.
#[must_use]
pub struct Hold<'a> {
    control: &'a Control,
    name: &'a LockName,
    token: LockToken,
    fence: Fence,
    term: Term,
}

impl LoopLock {
    #[must_use]
    pub fn new(control: &Control, stage: StageLock) -> Self {
        let row = control.settings.locks.stage(stage);
        Self {
            name: LockName::Stage(stage),
            row,
            request: control.identity.lock_request(),
            token: None,
            free_in: None,
        }
    }

    /// Leave to tick, if this process has the lock or gets it now. None: another has it.
    pub async fn tick<'a>(&'a mut self, control: &'a Control) -> Result<Option<Hold<'a>>, StoreError> {
        let asked_at = Instant::now();
        let grant = match self.keep(control).await? {
            Some(grant) => grant,
            None => match self.acquire(control).await? {
                Some(grant) => grant,
                None => return Ok(None),
            },
        };
        let (ttl, failures_max) = (self.row.ttl, self.row.failures_max.unwrap_or(u32::MAX));
        let term = Term { asked_at, ttl, failures_max };
        Ok(Some(Hold { control, name: &self.name, token: grant.token, fence: grant.fence, term }))
    }

    /// When it is worth asking again, after another was found to have it: a holder that lives has ticked again by then.
    #[must_use]
    pub fn free_in(&self) -> Option<Duration> {
        self.free_in
    }

    /// The hold is known to be another's by now.
    pub fn give_up(&mut self) {
        self.token = None;
    }

    /// The grant that we have, for its whole time from now on.
    async fn keep(&mut self, control: &Control) -> Result<Option<Grant>, StoreError> {
        let Some(token) = &self.token else { return Ok(None) };
        match control.renew_lock(&self.name, token, self.row.ttl).await {
            Ok(grant) => Ok(Some(grant)),
            Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => {
                self.token = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn acquire(&mut self, control: &Control) -> Result<Option<Grant>, StoreError> {
        let call = control.identity.lock_token();
        let acquire = Acquire {
            lock: self.name.clone(),
            owner: control.instance.as_str().parse().expect("the name of an instance is an owner's, too"),
            mode: LockMode::Exclusive,
            ttl: self.row.ttl,
            request: self.request.clone(),
            call: call.clone(),
            held: None,
            stay: None,
            limits: control.settings.lock_limits,
        };
        let grant = match control.pass_on_turn(&self.name, control.store.acquire(&acquire).await?) {
            Acquired::Granted(grant) => grant,
            Acquired::Waiting(busy) | Acquired::Refused(busy) => {
                self.free_in = busy.may_change_in;
                return Ok(None);
            }
            Acquired::OverQuota { .. } => return Ok(None),
        };
        self.token = Some(grant.token.clone());
        // What was granted before, unheard, has only the rest of its time.
        if grant.token == call { Ok(Some(grant)) } else { self.keep(control).await }
    }
}

impl Hold<'_> {
    /// To be presented by what the tick writes.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Runs one tick, which is dropped once another may have the lock.
    pub async fn guard<T>(self, work: impl Future<Output = T>) -> Result<T, Loss> {
        guarded(&self, self.term, &self.control.identity, work).await
    }
}

impl Lease for Hold<'_> {
    async fn renew(&self) -> Renewal {
        let renewed = self.control.renew_lock(self.name, &self.token, self.term.ttl).await;
        Renewal::of(renewed.map(|_| self.term.ttl))
    }

    /// It is held for its time.
    async fn release(self) {}
}
