//! Named limits, their groups, and the runs that wait for them.

use interlock_model::limit::GroupKey;
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::limit::group::Group;
use interlock_model::limit::place::QueuedRun;
use interlock_model::{LimitName, RunId, TenantId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;
use crate::{Page, PageRequest};

/// Queued runs that one step looks at for grants; a timer continues.
pub const GRANT_STEPS_MAX: u32 = 100;

/// Runs of a group that are looked at for one to join.
pub const JOINED_AMONG_MAX: usize = 100;

/// Runs of a workflow and group that are looked at for one that takes a newer start in.
pub const DEBOUNCED_AMONG_MAX: usize = 8;

/// Groups of a limit that one answer has.
pub const GROUPS_SHOWN: usize = 20;

/// Groups that are looked at to find the busiest.
pub const GROUPS_LOOKED_AT: usize = 1_000;

/// A named limit as it was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLimit {
    pub name: LimitName,
    pub document: LimitDocument,
    /// Raised by every change of it, and never used again.
    pub revision: u64,
    pub saved_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

/// All named limits of a tenant, those that it has from the system included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LimitBook {
    /// Raised by every change of any of them.
    pub revision: u64,
    /// The version of the system's limits that it has.
    #[serde(default)]
    pub system: u64,
    /// By name.
    pub limits: Vec<StoredLimit>,
    /// The tenant itself.
    #[serde(default)]
    pub paused: Option<Pause>,
}

/// The answer to a change of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitChange {
    /// It is in force. Waiting runs that it lets start have their slots.
    Done { revision: u64, granted: u32 },
    /// Not done: the limit, or another one of the tenant, has changed since it was read.
    Changed { revision: u64 },
}

/// Saves a named limit. It counts the starts from now on, and its numbers apply to all runs that counted in it before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaveLimit {
    pub tenant: TenantId,
    pub name: LimitName,
    #[serde(serialize_with = "wire::as_document")]
    pub document: LimitDocument,
    /// The revision of all limits that it was checked against.
    pub book: u64,
    /// The revision of the limit that it replaces, if the caller wants to be sure; 0: it must be new.
    pub replaces: Option<u64>,
}
verb!(write => SaveLimit, "save_limit", "save a limit", LimitChange);

/// Deletes a named limit. Runs that wait for it are re-evaluated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteLimit {
    pub tenant: TenantId,
    pub name: LimitName,
    pub replaces: Option<u64>,
}
verb!(write => DeleteLimit, "delete_limit", "delete a limit", LimitChange);

/// Pauses a limit, or the tenant itself under the name `tenant-runs`: nothing starts in it until it is resumed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PauseLimit {
    pub tenant: TenantId,
    pub name: LimitName,
    /// None: resumes it.
    #[serde(serialize_with = "wire::as_document")]
    pub pause: Option<Pause>,
}
verb!(write => PauseLimit, "pause_limit", "pause a limit", LimitChange);

/// Copies the named limits of the system to a tenant, where its starts and its runs that wait are judged by them. An older
/// version than the tenant has changes nothing. In any case the tenant's own slots are granted: the system's cap may have
/// been raised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdoptSystemLimits {
    pub tenant: TenantId,
    /// The version of the system's document.
    pub version: u64,
    /// By the names that they have in tenants.
    pub limits: Vec<StoredLimit>,
}
verb!(write => AdoptSystemLimits, "adopt_system_limits", "apply the limits of the system", SystemAdopted);

/// The answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SystemAdopted {
    /// The version that the tenant has now.
    pub version: u64,
    /// Runs that got their slots.
    pub granted: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListLimits {
    pub tenant: TenantId,
}
verb!(read => ListLimits, "list_limits", "list limits", LimitBook);

/// A group of a limit with what happens in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GroupUsage {
    pub group: GroupKey,
    pub state: Group,
    /// Runs that wait for newer starts.
    #[serde(default)]
    pub debounced: u32,
}

/// The busiest groups of a limit, by their live and waiting runs, those that wait for newer starts included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LimitUsage {
    pub groups: Vec<GroupUsage>,
    /// Of the groups that were looked at.
    pub live: u64,
    pub queued: u64,
    pub debounced: u64,
    /// There are more groups than were looked at.
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadLimitUsage {
    pub tenant: TenantId,
    pub name: LimitName,
    /// None: the busiest. Else this one alone.
    pub group: Option<GroupKey>,
}
verb!(read => ReadLimitUsage, "read_limit_usage", "read the usage of a limit", LimitUsage);

/// The runs that wait in a group, in order, page by page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListQueuedRuns {
    pub tenant: TenantId,
    pub name: LimitName,
    pub group: GroupKey,
    pub page: PageRequest,
}
verb!(read => ListQueuedRuns, "list_queued_runs", "list queued runs", Page<QueuedRun>);

/// The run of a workflow that waits for newer starts in a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadDebouncedRun {
    pub tenant: TenantId,
    pub name: LimitName,
    pub group: GroupKey,
    pub workflow: WorkflowId,
}
verb!(read => ReadDebouncedRun, "read_debounced_run", "read the run that waits for newer starts", Option<QueuedRun>);

/// A run that holds a slot of a group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct HeldSlot {
    pub run: RunId,
    pub since: Timestamp,
}

/// The runs that hold the slots of a group, oldest first, at most `limit`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListSlots {
    pub tenant: TenantId,
    pub name: LimitName,
    pub group: GroupKey,
    pub limit: usize,
}
verb!(read => ListSlots, "list_slots", "list the holders of slots", Vec<HeldSlot>);

/// Where a run waits. None: it does not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadQueuedRun {
    pub tenant: TenantId,
    pub run: RunId,
}
verb!(read => ReadQueuedRun, "read_queued_run", "read where a run waits", Option<QueuedRun>);

/// Moves a waiting run to the front of its queue, or behind all others. False: it does not wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MoveQueuedRun {
    pub tenant: TenantId,
    pub run: RunId,
    pub to_front: bool,
}
verb!(write => MoveQueuedRun, "move_queued_run", "move a queued run", bool);
