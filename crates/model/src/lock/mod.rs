//! Locks: leases on names, for users and for the control plane itself.
//!
//! A lock makes it likely that one holder works at a time; only its fence, compared where the writes are, makes it
//! certain that a late holder's write does not count.

mod inventory;
mod trust;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::ids::{LockOwner, LockRequest, LockToken, Resource};
use crate::{Fence, TenantId, Timestamp};
pub use inventory::{Inventory, LockKind, LockRow, ReleaseMode, StageLock, Timings};
pub use trust::{Distrust, JITTER_MAX, Trust};

/// How many may hold a lock at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    /// One holder.
    Exclusive,
    /// Any number of holders that all share.
    Shared,
}

/// Which lock is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockName {
    /// One that a tenant's users take.
    Of(TenantId, Resource),
    /// One of the control plane's own.
    Stage(StageLock),
    /// The control plane's own, too: the one in which a tenant's starts wait for each other.
    Admission(TenantId),
}

impl LockName {
    /// What it is on; for one of our own, what its key has after the prefix.
    #[must_use]
    pub fn resource(&self) -> Resource {
        match self {
            Self::Of(_, resource) => resource.clone(),
            Self::Stage(stage) => stage.key().parse().expect("the keys of stages are resources, too"),
            Self::Admission(tenant) => {
                format!("wf:run:admission:{tenant}").parse().expect("a tenant's name is visible ASCII")
            }
        }
    }
}

/// One hold on a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub owner: LockOwner,
    pub mode: LockMode,
    /// Proof of the hold: whoever renews or releases shows it.
    pub token: LockToken,
    /// The request that was granted. Asked again, it gives this grant again.
    pub request: LockRequest,
    /// The call that was last told of it. Only the call that made it may withdraw it, and only if it is still this one.
    pub call: LockToken,
    pub fence: Fence,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Grant {
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

/// Somebody in line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    pub request: LockRequest,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// The calls that look for it, the latest last. It leaves when the last of them withdraws.
    pub calls: Vec<LockToken>,
    pub since: Timestamp,
    /// Who has not looked again by then is gone, and the line goes on without it.
    pub alive_until: Timestamp,
}

impl Waiter {
    /// One more call looks for it, or one that did before looks again.
    pub fn attended_by(&mut self, call: &LockToken) {
        self.calls.retain(|known| known != call);
        self.calls.push(call.clone());
        if self.calls.len() > CALLS_MAX {
            self.calls.remove(0);
        }
    }

    /// One of its calls has gone. Whether nobody is left.
    #[must_use]
    pub fn is_left_by(&mut self, call: &LockToken) -> bool {
        let before = self.calls.len();
        self.calls.retain(|known| known != call);
        self.calls.len() < before && self.calls.is_empty()
    }
}

/// Calls of one request that are remembered: a client that asks again does so a few times, not at once.
pub const CALLS_MAX: usize = 4;

/// How a hold came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum LockEnd {
    /// By its holder.
    Released,
    /// Its time ran out.
    Expired,
    /// By an operator, who said why.
    ForceReleased { by: String, reason: String },
    /// Whoever asked for it had gone before it could be told of the grant.
    Withdrawn,
}

/// What happened to a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockEvent {
    pub at: Timestamp,
    pub owner: LockOwner,
    pub mode: LockMode,
    pub token: LockToken,
    pub fence: Fence,
    /// None: the hold began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<LockEnd>,
}

impl LockEvent {
    #[must_use]
    pub fn granted(grant: &Grant) -> Self {
        let Grant { owner, mode, token, fence, acquired_at, .. } = grant.clone();
        Self { at: acquired_at, owner, mode, token, fence, end: None }
    }

    /// A hold that ran out ended then, whenever it was noticed.
    #[must_use]
    pub fn ended(grant: &Grant, end: LockEnd, now: Timestamp) -> Self {
        let at = if end == LockEnd::Expired { grant.expires_at } else { now };
        Self { at, end: Some(end), ..Self::granted(grant) }
    }
}

/// How much of locks a tenant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "elsewhere `held` and `waiting` are how many there are")]
pub struct LockLimits {
    /// Locks of one tenant that are held at once.
    pub held_max: u32,
    /// Requests of one tenant that stand in lines.
    pub waiting_max: u32,
    /// Requests that stand in one line.
    pub line_max: u32,
}

impl Default for LockLimits {
    fn default() -> Self {
        Self { held_max: 10_000, waiting_max: 10_000, line_max: 2_000 }
    }
}

/// Who may hold one lock together.
pub const SHARING_MAX: usize = 1_000;

/// Events of one lock that are kept: a thousand holds with their ends, and some.
pub const HISTORY_MAX: usize = 2_048;

/// How long the history of a lock that nobody takes any more is kept. Names that are used once, such as a job's, are many.
pub const HISTORY_KEPT: Duration = Duration::from_hours(24);
