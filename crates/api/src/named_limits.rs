//! Named limits: their documents, how full they are, and the runs that wait for them.

use interlock_model::limit::document::{Labels, LimitDocument, OnFull};
use interlock_model::why::LimitReason;
use interlock_model::{LimitName, RunId, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::Time;
use crate::limits::ConfigScope;

/// A limit with what happens in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitView {
    pub name: LimitName,
    /// `system`: the tenant has it from the system and cannot change it. Its name begins with `system.`.
    pub scope: ConfigScope,
    pub document: LimitDocument,
    /// Raised with every change. `If-Match` takes it.
    pub revision: u64,
    /// Who paused it, if nothing starts in it now.
    #[schema(required)]
    pub paused: Option<PauseView>,
    pub usage: LimitUsageView,
    /// The busiest groups, at most 20.
    pub groups: Vec<GroupView>,
}

/// What all groups of a limit have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitUsageView {
    /// Runs that hold a slot.
    pub live: u64,
    /// Runs that wait.
    pub queued: u64,
    /// Runs that wait for newer starts, before they stand in a queue.
    #[serde(default)]
    pub debounced: u64,
    /// The limit in force, per group; null: a rate only.
    #[schema(required)]
    pub max_runs: Option<u32>,
    /// Whether there are more groups than were counted (1,000).
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupView {
    /// Null: the only group of a limit without a key.
    #[schema(required)]
    pub group: Option<String>,
    pub live: u32,
    pub queued: u32,
    /// Runs that wait for newer starts.
    #[serde(default)]
    pub debounced: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseView {
    pub by: String,
    pub at: Time,
    #[schema(required)]
    pub reason: Option<String>,
}

/// A limit of the system. It applies to every tenant separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SystemLimitView {
    pub name: LimitName,
    /// The name that it has in each tenant.
    pub name_in_tenants: LimitName,
    pub document: LimitDocument,
    /// Raised with every change. `If-Match` takes it.
    pub revision: u64,
    /// Who paused it, if nothing starts in it now in any tenant.
    #[schema(required)]
    pub paused: Option<PauseView>,
}

/// A limit that was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SavedLimit {
    pub name: LimitName,
    pub document: LimitDocument,
    pub revision: u64,
}

/// Pauses a limit: nothing starts in it until it is resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub reason: Option<String>,
}

/// Which queue of a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct QueueQuery {
    /// The value of the limit's key; for a limit without a key, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 256)]
    pub group: Option<String>,
    /// 1 to 500; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the previous page. Empty for the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(2[1-9a-f]|[3-6][0-9a-f]|7[0-9a-e])*$", max_length = 1024)]
    pub cursor: Option<String>,
}

/// A run that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueuedRunView {
    pub run_id: RunId,
    /// The first is 1; null: further back than 1,000.
    #[schema(required)]
    pub position: Option<u64>,
    /// Since when it waits.
    pub since: Time,
    pub priority: u8,
    /// In a fair queue, the value of `fair_by`: the group that is charged for it. Null: it is not in such a group, or goes
    /// before all of them.
    #[schema(required)]
    pub fair_group: Option<String>,
}

/// What keeps a start from its slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockedBy {
    #[schema(inline)]
    pub reason: LimitReason,
    pub limit: LimitName,
    /// Null: the limit has no key.
    #[schema(required)]
    pub group: Option<String>,
    pub full: FullBecause,
    /// Runs that hold a slot of the group.
    pub live: u32,
    /// Null: the limit is a rate only.
    #[schema(required)]
    pub max_runs: Option<u32>,
    /// Runs that wait in the group's queue.
    pub queued: u32,
    /// When a rate lets the next start pass.
    #[schema(required)]
    pub next_at: Option<Time>,
    /// How long the run waits for newer starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietView>,
}

/// How long a run waits for newer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuietView {
    /// When it goes on unless a newer start comes before.
    pub until: Time,
    /// When it goes on whatever comes.
    pub latest: Time,
    /// Starts that it stands for.
    pub starts: u32,
}

/// Why nothing more can start in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FullBecause {
    /// All slots are taken.
    Slots,
    /// The next start comes too soon.
    Rate,
    Paused,
    /// Free slots are promised to runs that wait already.
    Others,
    /// The run waits for newer starts.
    Quiet,
}

/// What a queued run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunWaitingFor {
    #[serde(flatten)]
    pub blocked_by: BlockedBy,
    /// The first is 1; null: further back than 1,000.
    #[schema(required)]
    pub position: Option<u64>,
    pub since: Time,
    /// When it ends `timed_out`.
    #[schema(required)]
    pub until: Option<Time>,
    /// One sentence for people.
    pub detail: String,
}

/// Explains what limits would do to a start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    pub workflow: WorkflowId,
    /// The run's input; an empty object if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// What limits would do to a start now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainView {
    pub workflow: WorkflowId,
    pub outcome: StartFate,
    /// The limit that decides; null if the run would start.
    #[schema(required)]
    pub decided_by: Option<LimitName>,
    /// The run that waits for newer starts and would take this one in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_in_by: Option<RunId>,
    /// One sentence for people.
    pub detail: String,
    /// All limits that the start counts in, the narrowest first; the tenant's own last.
    pub limits: Vec<MatchedLimit>,
    /// What the author of the limits may not have meant.
    pub warnings: Vec<String>,
}

/// What would become of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartFate {
    Start,
    Queue,
    Join,
    ReplaceQueued,
    ReplaceRunning,
    Debounce,
    Reject,
    QueueFull,
}

/// A limit that a start counts in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MatchedLimit {
    pub limit: LimitName,
    #[schema(required)]
    pub group: Option<String>,
    #[schema(inline)]
    pub on_full: OnFull,
    pub live: u32,
    #[schema(required)]
    pub max_runs: Option<u32>,
    pub queued: u32,
    /// Why nothing more can start in it; null: it has room.
    #[schema(required)]
    pub full: Option<FullBecause>,
}
