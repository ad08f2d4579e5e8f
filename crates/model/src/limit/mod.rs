//! Limits: of a tenant and how they are inherited, and named ones with their groups and queues.

pub mod checks;
pub mod document;
pub mod fair;
pub mod group;
mod group_key;
pub mod judge;
pub mod owner;
pub mod place;
pub mod rule;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use document::{OnFull, QueueOrder};
use group::GroupRule;
pub use group_key::{GROUP_BYTES_MAX, GroupKey, InvalidGroup, escaped};

/// The limit that is built in: the tenant's live runs.
pub const TENANT_RUNS: &str = "tenant-runs";

/// The largest valid limit.
pub const RUNS_MAX_BOUND: u32 = 1_000_000_000;

/// The limit where neither the tenant nor the system sets one.
pub const RUNS_MAX_DEFAULT: u32 = 10;

/// Bytes that one turn of a run may render, where neither the tenant nor the system says: inputs of jobs and approvals,
/// and outputs that the engine computes.
pub const TURN_BYTES_DEFAULT: u64 = 16 << 20;

/// Bytes that one run may hold, where neither says: its input, all inputs, items and outputs of its steps and their jobs,
/// and its timeline.
pub const RUN_BYTES_DEFAULT: u64 = 64 << 20;

/// Valid bounds for both of them.
pub const BYTES_BOUNDS: (u64, u64) = (64 << 10, 1 << 30);

/// Workflow ids that a tenant may use, where neither the tenant nor the system says.
pub const WORKFLOWS_MAX_DEFAULT: u32 = 10_000;

/// Versions that one workflow may have, where neither says.
pub const WORKFLOW_VERSIONS_MAX_DEFAULT: u32 = 10_000;

/// Workers on HTTP that a tenant may have, where neither says.
pub const WORKERS_MAX_DEFAULT: u32 = 10_000;

/// Tenants that an installation may have, where its limits do not say.
pub const TENANTS_MAX_DEFAULT: u32 = 100_000;

/// Valid bounds for these numbers.
pub const QUOTA_BOUNDS: (u32, u32) = (1, 10_000_000);

/// Runs that may wait for a slot, where neither the tenant nor the system says.
pub const QUEUED_MAX_DEFAULT: u32 = 1_000;

/// How long a run may wait for a slot, where neither says.
pub const QUEUE_WAIT_DEFAULT: Duration = Duration::from_hours(24);

/// What happens to starts of a group that has no free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRule {
    pub on_full: OnFull,
    /// Maximum number of runs that wait.
    pub queued_max: u32,
    /// How long each of them may wait.
    pub wait_max: Duration,
    pub order: QueueOrder,
}

/// The limits set for one scope. An absent limit is inherited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of active runs. Zero admits none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_max: Option<u32>,
    /// What happens to a start without a free slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<OnFull>,
    /// Maximum number of runs that wait for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_max: Option<u32>,
    /// How long a run may wait for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_wait: Option<Duration>,
    /// Which of the runs that wait goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_order: Option<QueueOrder>,
    /// How long an idempotency key is kept; forever, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_retention: Option<Duration>,
    /// Maximum bytes that one turn of a run renders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_bytes_max: Option<u64>,
    /// Maximum bytes that one run holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_bytes_max: Option<u64>,
    /// Maximum number of workflow ids that a tenant has used, those of deleted workflows included: their runs keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflows_max: Option<u32>,
    /// Maximum number of versions of one workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_versions_max: Option<u32>,
    /// Maximum number of workers on HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers_max: Option<u32>,
    /// Maximum number of tenants. Only the system's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants_max: Option<u32>,
}

/// How many rows a tenant may have in tables that all tenants share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "limits end in `max` everywhere")]
pub struct TenantQuotas {
    pub workflows_max: u32,
    pub workflow_versions_max: u32,
    pub workers_max: u32,
}

/// How much data the runs of a tenant may render and hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBounds {
    pub turn_bytes_max: u64,
    pub run_bytes_max: u64,
}

impl RunBounds {
    /// The tightest that can be set: what stays within them is within those of every tenant.
    pub const TIGHTEST: Self = Self { turn_bytes_max: BYTES_BOUNDS.0, run_bytes_max: BYTES_BOUNDS.0 };
}

impl Default for RunBounds {
    fn default() -> Self {
        Self { turn_bytes_max: TURN_BYTES_DEFAULT, run_bytes_max: RUN_BYTES_DEFAULT }
    }
}

/// The limits in force after inheritance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct EffectiveLimits {
    pub runs_max: u32,
    pub queue: QueueRule,
    pub key_retention: Option<Duration>,
    pub bounds: RunBounds,
    pub quotas: TenantQuotas,
}

impl EffectiveLimits {
    /// What the tenant's own slots demand.
    pub fn group_rule(&self, is_paused: bool) -> GroupRule {
        GroupRule { runs_max: Some(self.runs_max), rate: None, queue: self.queue, debounce: None, is_paused }
    }
}

impl Limits {
    /// The tenant's own limits, completed by the system's.
    pub fn under(self, system: Self) -> EffectiveLimits {
        EffectiveLimits {
            runs_max: self.runs_max.or(system.runs_max).unwrap_or(RUNS_MAX_DEFAULT),
            queue: QueueRule {
                on_full: self.on_full.or(system.on_full).unwrap_or_default(),
                queued_max: self.queued_max.or(system.queued_max).unwrap_or(QUEUED_MAX_DEFAULT),
                wait_max: self.queue_wait.or(system.queue_wait).unwrap_or(QUEUE_WAIT_DEFAULT),
                order: self.queue_order.or(system.queue_order).unwrap_or_default(),
            },
            key_retention: self.key_retention.or(system.key_retention),
            bounds: RunBounds {
                turn_bytes_max: self.turn_bytes_max.or(system.turn_bytes_max).unwrap_or(TURN_BYTES_DEFAULT),
                run_bytes_max: self.run_bytes_max.or(system.run_bytes_max).unwrap_or(RUN_BYTES_DEFAULT),
            },
            quotas: TenantQuotas {
                workflows_max: self.workflows_max.or(system.workflows_max).unwrap_or(WORKFLOWS_MAX_DEFAULT),
                workflow_versions_max: self
                    .workflow_versions_max
                    .or(system.workflow_versions_max)
                    .unwrap_or(WORKFLOW_VERSIONS_MAX_DEFAULT),
                workers_max: self.workers_max.or(system.workers_max).unwrap_or(WORKERS_MAX_DEFAULT),
            },
        }
    }

    /// These limits, with the bounds and quotas of `written`: what protects other tenants.
    pub fn with_quotas_of(self, written: Self) -> Self {
        let Self { runs_max, on_full, queued_max, queue_wait, queue_order, key_retention, .. } = self;
        Self { runs_max, on_full, queued_max, queue_wait, queue_order, key_retention, ..written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_own_limit_wins_and_zero_is_a_limit() {
        let system = Limits { runs_max: Some(5), run_bytes_max: Some(7), ..Limits::default() };
        let zero = Limits { runs_max: Some(0), turn_bytes_max: Some(3), ..Limits::default() };
        assert_eq!(zero.under(system).bounds, RunBounds { turn_bytes_max: 3, run_bytes_max: 7 });
        assert_eq!(Limits::default().under(Limits::default()).bounds, RunBounds::default());
        assert_eq!(zero.under(system).runs_max, 0);
        assert_eq!(Limits::default().under(system).runs_max, 5);
        assert_eq!(Limits::default().under(Limits::default()).runs_max, RUNS_MAX_DEFAULT);
    }
}
