//! Locks as decisions.

mod acquire;
mod end;
mod inspection;
mod look;
mod place;
mod record;
mod sweep;

use interlock_model::lock::LockName;
use interlock_model::{Fence, Timestamp};

use super::tables::View;
use crate::StoreError;
pub(super) use inspection::{debt, drift, not_listed, resource, unreadable};

/// The last fence that a lock was granted under.
pub(super) struct FenceInForce {
    pub(super) fence: Fence,
    /// Whether the lock is held under it now.
    pub(super) is_live: bool,
}

pub(super) fn fence_in_force(
    view: &dyn View,
    now: Timestamp,
    lock: &LockName,
) -> Result<FenceInForce, StoreError> {
    let lock = record::Lock::load(view, lock, now, record::Tally::default())?;
    let fence = lock.record.fence;
    Ok(FenceInForce { fence, is_live: lock.record.holders.iter().any(|grant| grant.fence == fence) })
}
