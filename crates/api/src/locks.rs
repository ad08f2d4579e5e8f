//! Locks: asked for, renewed and given back under a token; looked at by people; and the table of all of them.

use interlock_model::lock::{Inventory, LockKind, LockMode, LockRow, ReleaseMode};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockRequest, LockToken, Resource};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{Page, Time, schema};

/// The shortest lease that may be asked for, and the longest.
pub const TTL_MS_MIN: u64 = 100;
pub const TTL_MS_MAX: u64 = 86_400_000;

/// How long one call may stand in line.
pub const WAIT_MS_MAX: u64 = 60_000;

/// Somebody asks for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
    /// What the lock is on: 1 to 255 visible ASCII characters.
    #[schema(value_type = String)]
    pub resource: Resource,
    /// Who asks, for people. It proves nothing.
    #[schema(value_type = String)]
    pub owner: LockOwner,
    #[serde(default = "exclusive")]
    #[schema(schema_with = schema::lock_mode_asked)]
    pub mode: LockMode,
    /// How long the hold lasts without another word.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub ttl_ms: u64,
    /// How long to stand in line.
    #[serde(default)]
    #[schema(maximum = 60_000, default = 0)]
    pub wait_ms: u64,
    /// The same request again gives the same grant while it holds, and keeps its place in line while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub request_id: Option<LockRequest>,
    /// Of a hold that the caller has: asked for again in the same mode, it is the same hold under the same fence, and
    /// longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub token: Option<LockToken>,
}

fn exclusive() -> LockMode {
    LockMode::Exclusive
}

/// A hold on a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockGrant {
    #[schema(value_type = String)]
    pub resource: Resource,
    #[schema(schema_with = schema::lock_mode)]
    pub mode: LockMode,
    #[schema(value_type = String)]
    pub owner: LockOwner,
    /// Proof of the hold: whoever renews or releases shows it.
    #[schema(value_type = String)]
    pub token: LockToken,
    /// Larger than that of every earlier grant. To be presented with every write that the lock protects.
    pub fence: u64,
    pub expires_at: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    #[schema(value_type = String)]
    pub resource: Resource,
    #[schema(value_type = String)]
    pub token: LockToken,
    /// From now.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub ttl_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    #[schema(value_type = String)]
    pub resource: Resource,
    #[schema(value_type = String)]
    pub token: LockToken,
}

/// An operator ends somebody's hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceReleaseRequest {
    #[schema(value_type = String)]
    pub resource: Resource,
    /// Of the hold that is meant. If it is another by now, nothing is ended.
    #[schema(value_type = String)]
    pub expect_token: LockToken,
    /// Written down in the history.
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
}

/// A lock that is held. Its own members are those of its first holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockView {
    #[schema(value_type = String)]
    pub resource: Resource,
    #[schema(schema_with = schema::lock_mode)]
    pub mode: LockMode,
    #[schema(value_type = String)]
    pub owner: LockOwner,
    #[schema(value_type = String)]
    pub token: LockToken,
    pub fence: u64,
    pub acquired_at: Time,
    pub expires_at: Time,
    /// More than one only if they share; by when they came.
    pub holders: Vec<HolderView>,
    /// How many stand in line.
    pub waiting: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HolderView {
    #[schema(value_type = String)]
    pub owner: LockOwner,
    #[schema(value_type = String)]
    pub token: LockToken,
    pub fence: u64,
    pub acquired_at: Time,
    pub expires_at: Time,
}

/// A lock with the first of its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockDetail {
    #[serde(flatten)]
    pub view: LockView,
    pub line: Vec<WaiterView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaiterView {
    #[schema(value_type = String)]
    pub owner: LockOwner,
    #[schema(schema_with = schema::lock_mode)]
    pub mode: LockMode,
    /// The first is 1.
    pub position: u32,
    pub waiting_ms: u64,
}

/// `GET /locks`: one lock if a resource was named, else a page of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum LocksAnswer {
    One(Box<LockDetail>),
    Page(Page<LockView>),
}

/// Something that happened to a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockEventView {
    pub time: Time,
    #[schema(inline)]
    pub event: LockEventKind,
    #[schema(inline)]
    pub cause: LockCause,
    #[schema(value_type = String)]
    pub owner: LockOwner,
    #[schema(schema_with = schema::lock_mode)]
    pub mode: LockMode,
    #[schema(value_type = String)]
    pub token: LockToken,
    pub fence: u64,
    /// Who released it by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it was released by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockEventKind {
    Granted,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockCause {
    Acquired,
    Released,
    Expired,
    ForceReleased,
    /// Whoever asked had gone before it could be told of the grant.
    Withdrawn,
    /// A cause of a newer server. Never sent by this one.
    #[serde(other)]
    Unrecognized,
}

/// Which lock, or which part of the list of locks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LockQuery {
    /// This one, or 404 if nobody holds it. Absent: the tenant's held locks, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub resource: Option<Resource>,
    /// 1 to 500; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Which part of a lock's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LockHistoryQuery {
    #[param(value_type = String)]
    pub resource: Resource,
    /// 1 to 500; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One lock, or one family of locks, of the inventory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InventoryRow {
    /// As it stands in Redis; `<…>` stands for a name.
    pub key: String,
    #[schema(schema_with = schema::lock_kind)]
    pub kind: LockKind,
    pub ttl_ms: u64,
    /// How often its holder renews it; null if it does not.
    #[schema(required)]
    pub renew_ms: Option<u64>,
    /// Renewals that may fail in a row before the work is told to stop. The deadline may tell it earlier.
    #[schema(required)]
    pub max_failures: Option<u32>,
    #[schema(schema_with = schema::lock_release)]
    pub release: ReleaseMode,
    pub protects: String,
    /// What happens when it is lost.
    pub on_loss: String,
}

/// Every lock of an installation whose keys begin with `prefix`.
#[must_use]
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
    fn what_is_not_said_is_exclusive_and_does_not_wait() {
        let read: AcquireRequest =
            serde_json::from_value(json!({"resource": "r", "owner": "o", "ttl_ms": 1_000})).unwrap();
        assert_eq!((read.mode, read.wait_ms), (LockMode::Exclusive, 0));
        assert_eq!((read.request_id, read.token), (None, None));
    }

    #[test]
    fn a_lock_and_a_page_of_locks_are_told_apart() {
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
