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
pub(super) use inspection::{debt, drift, not_listed, resource};
pub(super) use record::{Record, Tally};

/// Refuses a caller unless the lock is held under its fence now.
pub(super) fn check_fence(
    view: &dyn View,
    now: Timestamp,
    lock: &LockName,
    held: Fence,
) -> Result<(), StoreError> {
    let record = record::Lock::load(view, lock, now, Tally::default())?.record;
    if record.fence == held && record.holders.iter().any(|grant| grant.fence == held) {
        return Ok(());
    }
    Err(StoreError::Fenced { held, current: record.fence })
}
