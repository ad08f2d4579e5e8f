//! Locks: acquired under a lease and a fence, with a queue of waiters, and a history of every lease and its end.
//!
//! Each verb first ends leases that have expired and drops waiters that are offline, by the store's own clock, and answers
//! whose turn it is then. A waiter is never granted a lock in its absence: it is woken, and asks again.

use std::time::Duration;

use interlock_model::lock::{Grant, LockEvent, LockLimits, LockMode, LockName, Waiter};
use interlock_model::{LockOwner, LockRequest, LockToken, Resource, TenantId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;
use crate::{Page, PageRequest};

/// Asks for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcquireLock {
    pub lock: LockName,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// Lease duration unless renewed.
    #[serde(serialize_with = "wire::as_millis")]
    pub ttl: Duration,
    /// The same request again gets the same grant, or keeps its place in the queue.
    pub request: LockRequest,
    /// Unique to this call. It becomes the token of a lease that is granted now; one that was granted before keeps its own.
    pub call: LockToken,
    /// The token of a lease that the caller has already. Nothing else proves that it is the caller's.
    pub held: Option<LockToken>,
    /// Wait in the queue, and count as offline after this time without another call. None: now or not at all.
    #[serde(serialize_with = "wire::as_millis")]
    pub stay: Option<Duration>,
    pub limits: LockLimits,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Acquired {
    Granted(Grant),
    /// It waits in the queue.
    Waiting(Busy),
    /// It does not wait, and holds nothing.
    Refused(Busy),
    /// The tenant holds, or waits for, as many locks as it may.
    OverQuota {
        what: LockQuota,
        limit: u32,
        current: u32,
    },
}

/// What a tenant can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockQuota {
    Held,
    Waiting,
}

/// Why it is not the caller's turn.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Busy {
    /// The owner that holds it; of several, the one that has for longest. None: it is free and another waiter's turn, or the
    /// value in the store is foreign.
    pub holder: Option<LockOwner>,
    /// For how long it has been held without a break.
    pub held_for: Duration,
    /// The caller's place in the queue, or the place that it would have; the first is 1.
    pub position: u32,
    /// When it may be the caller's turn by the passing of time alone, if it is first or second.
    pub may_change_in: Option<Duration>,
    /// The queue is full.
    pub is_line_full: bool,
}

/// An answer, and whose turn it is after it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[must_use]
pub struct Turn<T> {
    pub answer: T,
    /// The request that would be granted now, if it is not the one that was answered; or the one that is now the first in
    /// the queue and would not ask before the new lease expires. It is to be woken.
    pub next: Option<LockRequest>,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LockView {
    pub resource: Resource,
    /// By when they came; more than one only if they share.
    pub holders: Vec<Grant>,
    pub waiting: u32,
}

/// A lock with its queue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LockDetail {
    pub view: LockView,
    /// The first waiters of the queue.
    pub line: Vec<Waiter>,
}

/// Waiters that are shown of one queue.
pub const LINE_SHOWN_MAX: usize = 100;

/// Other locks of the same tenant that a request cleans up, so that abandoned ones do not accumulate.
pub const SWEEP_MAX: usize = 64;

/// Ends a lease on an operator's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForceReleaseLock {
    pub lock: LockName,
    /// Of the lease that is meant. If it is another by now, nothing is ended.
    pub expected: LockToken,
    pub by: String,
    pub reason: String,
}

verb!(write => AcquireLock, "acquire_lock", "acquire a lock", Turn<Acquired>);

/// Extends the lease to `ttl` from now. An expired one cannot be revived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RenewLock {
    pub lock: LockName,
    pub token: LockToken,
    #[serde(serialize_with = "wire::as_millis")]
    pub ttl: Duration,
}
verb!(write => RenewLock, "renew_lock", "renew a lock", Turn<Grant>);

/// Ends the lease. Called again, it is still released; once it has expired or was ended by force, it is stale.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleaseLock {
    pub lock: LockName,
    pub token: LockToken,
}
verb!(write => ReleaseLock, "release_lock", "release a lock", Turn<()>);

/// Removes what `call` leaves behind when its caller has disconnected: its place in the queue, unless another call of the
/// same request waits there, too; and the lease that it was granted, unless another call was answered with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithdrawLock {
    pub lock: LockName,
    pub request: LockRequest,
    pub call: LockToken,
}
verb!(write => WithdrawLock, "withdraw_lock", "withdraw from a lock", Turn<()>);

verb!(write => ForceReleaseLock, "force_release_lock", "release a lock by force", Turn<()>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadLock {
    pub lock: LockName,
}
verb!(read => ReadLock, "read_lock", "read a lock", Option<LockDetail>);

/// The tenant's held locks, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListLocks {
    pub tenant: TenantId,
    pub page: PageRequest,
}
verb!(read => ListLocks, "list_locks", "list locks", Page<LockView>);

/// What happened to it, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListLockHistory {
    pub lock: LockName,
    pub page: PageRequest,
}
verb!(read => ListLockHistory, "list_lock_history", "read the history of a lock", Page<LockEvent>);
