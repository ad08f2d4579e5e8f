//! Locks: acquired, renewed and released by token; shown to people; and the inventory of all of them.

use interlock_model::lock::{Inventory, LockKind, LockMode, LockRow, ReleaseMode};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockRequest, LockToken, Resource};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{Page, PageQuery, Time, schema};

/// The shortest and the longest lease.
pub const TTL_MS_MIN: u64 = 100;
pub const TTL_MS_MAX: u64 = 86_400_000;

/// The longest wait of one call.
pub const WAIT_MS_MAX: u64 = 60_000;

/// Acquires a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
    /// Name of the lock: 1 to 255 visible ASCII characters.
    pub resource: Resource,
    /// Owner, for people to read. It proves nothing.
    pub owner: LockOwner,
    #[serde(default = "exclusive")]
    #[schema(schema_with = schema::lock_mode_asked)]
    pub mode: LockMode,
    /// Lease duration unless renewed.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub ttl_ms: u64,
    /// How long to wait for the lock.
    #[serde(default)]
    #[schema(maximum = 60_000, default = 0)]
    pub wait_ms: u64,
    /// Id of the request: repeated, it gets the same grant while the lease lasts, and keeps its place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<LockRequest>,
    /// Token of a lease that the caller holds: in the same mode, extends it under the same fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<LockToken>,
}

fn exclusive() -> LockMode {
    LockMode::Exclusive
}

/// A lease on a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockGrant {
    pub resource: Resource,
    pub mode: LockMode,
    pub owner: LockOwner,
    /// Proof of the lease: renewing and releasing need it.
    pub token: LockToken,
    /// Larger than the fence of every earlier grant. Send it with every write that the lock protects.
    pub fence: u64,
    pub expires_at: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    pub resource: Resource,
    pub token: LockToken,
    /// Lease duration from now.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub ttl_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    pub resource: Resource,
    pub token: LockToken,
}

/// An operator ends the lease of another owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceReleaseRequest {
    pub resource: Resource,
    /// Token of the lease to end. Any other lease stays.
    pub expect_token: LockToken,
    /// Recorded in the history.
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
}

/// A held lock. Its own fields are those of its first holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockView {
    pub resource: Resource,
    pub mode: LockMode,
    pub owner: LockOwner,
    /// Only for operators and admins: the token is the right to renew and release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<LockToken>,
    pub fence: u64,
    pub acquired_at: Time,
    pub expires_at: Time,
    /// In order of acquisition; more than one only if they share.
    pub holders: Vec<HolderView>,
    /// Number of requests that wait.
    pub waiting: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HolderView {
    pub owner: LockOwner,
    /// Only for operators and admins: the token is the right to renew and release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<LockToken>,
    pub fence: u64,
    pub acquired_at: Time,
    pub expires_at: Time,
}

/// A lock with the first requests in its queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockDetail {
    #[serde(flatten)]
    pub view: LockView,
    pub line: Vec<WaiterView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaiterView {
    pub owner: LockOwner,
    pub mode: LockMode,
    /// The first is 1.
    pub position: u32,
    pub waiting_ms: u64,
}

/// `GET /locks`: one lock if a resource was named, else a page of locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum LocksAnswer {
    One(Box<LockDetail>),
    Page(Page<LockView>),
}

/// An event in the history of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockEventView {
    pub time: Time,
    #[schema(inline)]
    pub event: LockEventKind,
    #[schema(inline)]
    pub cause: LockCause,
    pub owner: LockOwner,
    pub mode: LockMode,
    /// Only for operators and admins: the token is the right to renew and release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<LockToken>,
    pub fence: u64,
    /// Who released it by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it was released by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

interlock_model::named_enum! {
    pub enum LockEventKind {
        Granted = "granted",
        Ended = "ended",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockCause {
    Acquired,
    Released,
    Expired,
    ForceReleased,
    /// The client disconnected before it could receive the grant.
    Withdrawn,
    /// A cause of a newer server. This one never sends it.
    #[serde(other)]
    Unrecognized,
}

/// Which lock, or which part of the list of locks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LockQuery {
    /// One lock, or 404 if it is not held. Absent: the tenant's held locks, newest first.
    pub resource: Option<Resource>,
    #[serde(flatten)]
    #[param(ignore)]
    pub page: PageQuery,
}

/// Which part of a lock's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LockHistoryQuery {
    pub resource: Resource,
    #[serde(flatten)]
    #[param(ignore)]
    pub page: PageQuery,
}

/// One lock, or one family of locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InventoryRow {
    /// Its key in Redis; `<…>` stands for a name.
    pub key: String,
    pub kind: LockKind,
    pub ttl_ms: u64,
    /// How often its holder renews it; null if it does not.
    #[schema(required)]
    pub renew_ms: Option<u64>,
    /// Renewals that may fail in a row before the work stops. The lease's end may stop it earlier.
    #[schema(required)]
    pub max_failures: Option<u32>,
    pub release: ReleaseMode,
    pub protects: String,
    /// What happens when it is lost.
    pub on_loss: String,
}

/// Every lock of an installation whose keys begin with `prefix`.
pub fn inventory(inventory: &Inventory, prefix: &str) -> Vec<InventoryRow> {
    let row = |row: LockRow| {
        let LockRow { key, kind, ttl, renewed_every, failures_max, release, protects, loss } = row;
        InventoryRow {
            key: format!("{prefix}:{key}"),
            kind,
            ttl_ms: millis(ttl),
            renew_ms: renewed_every.map(millis),
            max_failures: failures_max,
            release,
            protects: protects.to_owned(),
            on_loss: loss.to_owned(),
        }
    };
    inventory.rows().into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn by_default_a_request_is_exclusive_and_does_not_wait() {
        let read: AcquireRequest =
            serde_json::from_value(json!({"resource": "r", "owner": "o", "ttl_ms": 1_000})).unwrap();
        assert_eq!((read.mode, read.wait_ms), (LockMode::Exclusive, 0));
        assert_eq!((read.request_id, read.token), (None, None));
    }

    #[test]
    fn a_lock_and_a_page_of_locks_are_distinguished() {
        let page = json!({"items": [], "next_cursor": null});
        let read: LocksAnswer = serde_json::from_value(page).unwrap();
        assert_eq!(read, LocksAnswer::Page(Page::new(Vec::new(), None)));
    }

    #[test]
    fn the_inventory_has_every_lock_under_the_installations_prefix() {
        let rows = inventory(&Inventory::default(), "plant");
        assert_eq!(rows.len(), Inventory::default().rows().len());
        assert!(rows.iter().all(|row| row.key.starts_with("plant:")));
        let written = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(
            (&written["kind"], &written["release"], &written["ttl_ms"]),
            (&json!("per_item"), &json!("explicit"), &json!(60_000))
        );
    }
}
