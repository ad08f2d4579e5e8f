//! Locks: leases on names, for users and for the control plane itself.
//!
//! A lock makes it likely that one holder works at a time. Only its fence, compared at the write, guarantees that a late
//! holder's write is rejected.

mod inventory;
mod trust;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::ids::{LockOwner, LockRequest, LockToken, Resource};
use crate::{Fence, TenantId, Timestamp};
pub use inventory::{FAILURES_MAX, Inventory, LockKind, LockRow, ReleaseMode, StageLock, Timings};
pub use trust::{Distrust, JITTER_MAX, Trust};

crate::named_enum! {
    #[derive(Hash)]
    pub enum LockMode {
        /// One holder.
        Exclusive = "exclusive",
        /// Any number of holders that all share.
        Shared = "shared",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockName {
    /// A lock of a tenant's users.
    Of(TenantId, Resource),
    /// A lock of a control plane loop.
    Stage(StageLock),
    /// The lock that serialises a tenant's starts under the admission strategy `lock`.
    Admission(TenantId),
}

impl LockName {
    /// The resource; for the control plane's own locks, the key after the prefix.
    pub fn resource(&self) -> Resource {
        match self {
            Self::Of(_, resource) => resource.clone(),
            Self::Stage(stage) => stage.key().parse().expect("the key of a loop's lock is a valid resource"),
            Self::Admission(tenant) => {
                format!("wf:run:admission:{tenant}").parse().expect("a tenant id is visible ASCII")
            }
        }
    }
}

/// One holder's lease on a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub owner: LockOwner,
    pub mode: LockMode,
    /// Proof of the lease, required to renew or release it.
    pub token: LockToken,
    /// The granted request. A retry of it returns this grant.
    pub request: LockRequest,
    /// The last call that this grant was returned to. A call may withdraw the grant only while it is this one.
    pub call: LockToken,
    pub fence: Fence,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Grant {
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

/// A request in a lock's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    pub request: LockRequest,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// The open calls for this request, latest last. The request leaves the queue when the last of them withdraws.
    pub calls: Vec<LockToken>,
    pub since: Timestamp,
    /// A waiter that has not polled by this time is removed.
    pub alive_until: Timestamp,
}

impl Waiter {
    /// Records a poll by `call`.
    pub fn attended_by(&mut self, call: &LockToken) {
        self.calls.retain(|known| known != call);
        self.calls.push(call.clone());
        if self.calls.len() > CALLS_MAX {
            self.calls.remove(0);
        }
    }

    /// Removes `call`. True if it was the last one.
    pub fn is_left_by(&mut self, call: &LockToken) -> bool {
        let before = self.calls.len();
        self.calls.retain(|known| known != call);
        self.calls.len() < before && self.calls.is_empty()
    }
}

/// Maximum number of remembered calls per request.
pub const CALLS_MAX: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum LockEnd {
    /// The holder released it.
    Released,
    /// The holder did not renew it in time.
    Expired,
    /// An operator ended it.
    ForceReleased { by: String, reason: String },
    /// The client disconnected before it received the grant.
    Withdrawn,
}

/// One entry of a lock's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockEvent {
    pub at: Timestamp,
    pub owner: LockOwner,
    pub mode: LockMode,
    pub token: LockToken,
    pub fence: Fence,
    /// Absent if the lease began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<LockEnd>,
}

impl LockEvent {
    pub fn granted(grant: &Grant) -> Self {
        let Grant { owner, mode, token, fence, acquired_at, .. } = grant.clone();
        Self { at: acquired_at, owner, mode, token, fence, end: None }
    }

    /// An expired lease ended at its expiry, not when the expiry was noticed.
    pub fn ended(grant: &Grant, end: LockEnd, now: Timestamp) -> Self {
        let at = if end == LockEnd::Expired { grant.expires_at } else { now };
        Self { at, end: Some(end), ..Self::granted(grant) }
    }
}

/// Limits on the locks of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "`held` and `waiting` are counts elsewhere")]
pub struct LockLimits {
    /// Held locks per tenant.
    pub held_max: u32,
    /// Waiting requests per tenant.
    pub waiting_max: u32,
    /// Waiting requests per lock.
    pub line_max: u32,
}

impl Default for LockLimits {
    fn default() -> Self {
        Self { held_max: 10_000, waiting_max: 10_000, line_max: 2_000 }
    }
}

/// Maximum number of shared holders of one lock.
pub const SHARING_MAX: usize = 1_000;

/// Maximum number of history entries per lock: about a thousand leases.
pub const HISTORY_MAX: usize = 2_048;

/// How long the history of an unused lock is kept. Many names, such as those of jobs, are used only once.
pub const HISTORY_KEPT: Duration = Duration::from_hours(24);
