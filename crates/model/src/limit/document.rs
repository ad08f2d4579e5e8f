//! A named limit as an operator writes it. Unknown fields are rejected, so that a misspelled one is not silently ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

crate::named_enum! {
    /// What happens to a start that finds a limit full.
    #[derive(Default)]
    pub enum OnFull {
        /// The start is rejected, and nothing is written.
        #[default]
        Reject = "reject",
        /// The run is created and waits for a slot.
        Queue = "queue",
        /// The start is answered with the run of the group that exists already.
        Join = "join",
        /// The oldest live run of the group is cancelled, and the new one follows it.
        ReplaceRunning = "replace_running",
        /// The new run takes the place of the youngest one that waits.
        ReplaceQueued = "replace_queued",
        /// Every start, whether the limit is full or not, waits until no newer one has come for a while: one run for all of
        /// them, with the input of the newest.
        Debounce = "debounce",
    }
}

crate::named_enum! {
    /// Who goes first among the runs that wait.
    #[derive(Default)]
    pub enum QueueOrder {
        /// In the order of their arrival.
        #[default]
        Fifo = "fifo",
        /// The highest priority first. A run gains one level for each minute that it waits.
        Priority = "priority",
        /// The group of `fair_by` with the least charged slot time per weight first, by priority within it.
        Fair = "fair",
    }
}

crate::named_enum! {
    /// Which runs a limit counts.
    #[derive(Default)]
    pub enum CountedRuns {
        /// Those that clients start: a child runs in the slot of its root.
        #[default]
        Root = "root",
        /// Children, too, unless a run above them is in the same group.
        All = "all",
    }
}

impl CountedRuns {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// A limit as an operator writes it. Unknown fields are rejected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Limit)]
pub struct LimitDocument {
    /// Whose starts count; absent: those of every workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applies_to: Option<AppliesTo>,
    /// An expression over `input`, `workflow` and `labels`: starts with the same value share one group. Absent: one group
    /// for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Live runs per group; 0 lets none start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 1_000_000_000)]
    pub max_runs: Option<u32>,
    /// Starts per group over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateDocument>,
    #[serde(default)]
    #[schema(inline)]
    pub on_full: OnFull,
    /// With `debounce`: how long no newer start may come before the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub quiet_sec: Option<u32>,
    /// With `debounce`: how long newer starts may delay the run, from the first start on. 10 times `quiet_sec` if absent,
    /// and at most a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800)]
    pub max_delay_sec: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueDocument>,
    /// With `all`, `queue.max_wait_sec` is required.
    #[serde(default, skip_serializing_if = "CountedRuns::is_usual")]
    #[schema(inline)]
    pub count: CountedRuns,
}

/// Which workflows a limit applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppliesTo {
    /// 1 to 64 workflow ids, or prefixes of ids followed by `*`.
    #[schema(min_items = 1, max_items = 64, pattern = r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63}\*?)$")]
    pub workflows: Vec<String>,
}

/// At most `starts` per `period_sec`, evenly; `burst` of them may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Rate)]
pub struct RateDocument {
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub starts: u32,
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub period_sec: u32,
    /// As many as `starts`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub burst: Option<u32>,
}

/// How runs wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LimitQueue)]
pub struct QueueDocument {
    /// Runs of one group that may wait: 1,000 if absent, 1 with `replace_queued`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max: Option<u32>,
    /// How long a run may wait, then it ends `timed_out`: a day if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub max_wait_sec: Option<u32>,
    #[serde(default)]
    #[schema(inline)]
    pub order: QueueOrder,
    /// With `fair`, and needed for it: an expression over `input`, `workflow` and `labels`. Runs with the same value share
    /// a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_by: Option<String>,
    /// With `fair`: shares of groups, from 1 to 1,000; at most 100 of them. A group that is not listed has 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

/// Who paused a limit, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub by: String,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Labels of a start, by name.
pub type Labels = BTreeMap<String, String>;
