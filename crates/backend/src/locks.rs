//! Locks: taken under a lease and a fence, waited for in line, every hold and its end written down.
//!
//! Each verb first ends what has run out and leaves out who is gone, on the store's own clock, and says whose turn it
//! is then. Nobody is granted a lock while it is not there to hear of it: who is woken asks again.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::lock::{Grant, LockEvent, LockLimits, LockMode, LockName, Waiter};
use interlock_model::{LockOwner, LockRequest, LockToken, Resource, TenantId};

use crate::{Page, PageRequest, StoreError};

/// Somebody who asks for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    pub lock: LockName,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// How long the hold lasts without another word.
    pub ttl: Duration,
    /// The same request again gives the same grant, or keeps its place in line.
    pub request: LockRequest,
    /// Unique to this call. It becomes the token of the hold, should one be granted now; one that was granted before
    /// keeps its own.
    pub call: LockToken,
    /// The token of a hold that the caller has already. It is the only thing that makes it the caller's.
    pub held: Option<LockToken>,
    /// Stay in line, and be counted as gone if not heard of for so long. None: now or not at all.
    pub stay: Option<Duration>,
    pub limits: LockLimits,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    Granted(Grant),
    /// It stands in line.
    Waiting(Busy),
    /// It does not stand in line, and holds nothing.
    Refused(Busy),
    /// The tenant has as many locks, or stands in as many lines, as it may.
    OverQuota {
        what: LockQuota,
        limit: u32,
        current: u32,
    },
}

/// What a tenant can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockQuota {
    Held,
    Waiting,
}

/// Why it is not the caller's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// Who holds it; of several, the one that has for longest. None: it is free and somebody else's turn, or what
    /// stands in the store is not ours.
    pub holder: Option<LockOwner>,
    /// For how long somebody has held it without a break.
    pub held_for: Duration,
    /// The caller's place in line, or the place that it would have; the first is 1.
    pub position: u32,
    /// When it may be the caller's turn by the passing of time alone, for those who stand next to it.
    pub may_change_in: Option<Duration>,
    /// Nobody more may stand in line.
    pub is_line_full: bool,
}

/// An answer, and whose turn it is after it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Turn<T> {
    pub answer: T,
    /// The request that would be granted now, if it is not the one that was answered; or the one that has become the first
    /// in line and would not look before the hold that was just granted ends. It is to be woken.
    pub next: Option<LockRequest>,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    pub resource: Resource,
    /// By when they came; more than one only if they share.
    pub holders: Vec<Grant>,
    pub waiting: u32,
}

/// A lock with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockDetail {
    pub view: LockView,
    /// The first of the line.
    pub line: Vec<Waiter>,
}

/// Waiters that are shown of one line.
pub const LINE_SHOWN_MAX: usize = 100;

/// Locks, and waiters, of one home that a verb ends beside its own, so that what nobody touches does not pile up.
pub const SWEEP_MAX: usize = 64;

/// An operator who ends somebody's hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedRelease {
    pub lock: LockName,
    /// Of the hold that is meant. If it is another by now, nothing is ended.
    pub expected: LockToken,
    pub by: String,
    pub reason: String,
}

#[async_trait]
pub trait LockStore: Send + Sync {
    async fn acquire(&self, acquire: &Acquire) -> Result<Turn<Acquired>, StoreError>;

    /// Extends the hold to `ttl` from now. One that has run out cannot be revived.
    async fn renew(
        &self,
        lock: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Turn<Grant>, StoreError>;

    /// Ends the hold. Again, it is still released; once it has run out or was taken away, it never was.
    async fn release(&self, lock: &LockName, token: &LockToken) -> Result<Turn<()>, StoreError>;

    /// What `call` leaves behind when whoever made it has gone: its place in line, unless another call of the same request
    /// looks for it, too; and the hold that it was granted, unless another call was told of that.
    async fn withdraw(
        &self,
        lock: &LockName,
        request: &LockRequest,
        call: &LockToken,
    ) -> Result<Turn<()>, StoreError>;

    async fn force_release(&self, forced: &ForcedRelease) -> Result<Turn<()>, StoreError>;

    async fn lock(&self, lock: &LockName) -> Result<Option<LockDetail>, StoreError>;

    /// The tenant's held locks, the newest first.
    async fn locks(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<LockView>, StoreError>;

    /// What happened to it, the newest first.
    async fn lock_history(&self, lock: &LockName, page: &PageRequest) -> Result<Page<LockEvent>, StoreError>;
}
