//! Rollouts: a candidate for the policy `lock_busy`, tried on a share of the runs beside the one in force.

use interlock_model::RolloutId;
use interlock_model::contention::{Arm, Estimate, Guards, RolloutEventKind, RolloutState};
use interlock_model::retry::RetryPolicy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::retry_policies::policy_text;

/// Starts a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRolloutRequest {
    /// Such as `bounded_jitter:500ms:30%`.
    #[serde(with = "policy_text")]
    #[schema(
        value_type = String,
        pattern = "^(fixed|(bounded|full|equal|decorrelated)_jitter|exponential)(:[0-9]{1,7}(ms|s|%)?){1,3}$"
    )]
    pub candidate: RetryPolicy,
    /// Share of the runs, by a stable hash.
    #[schema(minimum = 0.01, maximum = 99.99)]
    pub share_percent: f64,
    #[serde(default = "seven_days")]
    #[schema(minimum = 1_000, maximum = 7_776_000_000u64, default = 604_800_000u64)]
    pub duration_ms: u64,
    #[serde(default)]
    pub guards: Guards,
    /// Recorded in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub reason: Option<String>,
}

fn seven_days() -> u64 {
    604_800_000
}

/// Ends a rollout by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndRolloutRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub reason: Option<String>,
}

/// A rollout with its two arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RolloutView {
    pub id: RolloutId,
    pub state: RolloutState,
    /// The current assessment with its figures; for an ended rollout, why it ended.
    pub verdict: String,
    /// What to know before reading the figures.
    #[schema(required)]
    pub note: Option<String>,
    pub share_percent: f64,
    /// The version of the control's policy.
    pub control_version: u64,
    pub guards: Guards,
    pub started_at: Time,
    pub ends_at: Time,
    #[schema(required)]
    pub ended_at: Option<Time>,
    /// Who started it.
    pub by: String,
    /// The control, then the candidate.
    pub arms: Vec<ArmView>,
    /// Oldest first.
    pub history: Vec<RolloutEventView>,
}

/// The figures of one arm. Each estimate has a 95 % interval; null if nothing was observed for long enough. The times are
/// those of all results: those that have not ended count with the time that they have waited so far, as a lower bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ArmView {
    pub arm: Arm,
    #[serde(with = "policy_text")]
    #[schema(value_type = String)]
    pub policy: RetryPolicy,
    pub results: u64,
    pub retries: u64,
    /// Results that are deferred now.
    pub outstanding: u64,
    /// False: too few samples to conclude anything.
    pub has_enough_samples: bool,
    /// Scaled to the load of both arms.
    #[schema(required)]
    pub retries_per_minute: Option<Estimate>,
    /// Up to the same age of the results in both arms.
    #[schema(required)]
    pub retries_per_result: Option<Estimate>,
    #[schema(required)]
    pub lock_wait_p95_ms: Option<Estimate>,
    #[schema(required)]
    pub lock_wait_p99_ms: Option<Estimate>,
    #[schema(required)]
    pub result_latency_p95_ms: Option<Estimate>,
    /// Of the results whose run was leased, the share that the next delivery handed over.
    #[schema(required)]
    pub first_retry_success: Option<Estimate>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RolloutEventView {
    pub time: Time,
    pub event: RolloutEventKind,
    pub by: String,
    #[schema(required)]
    pub why: Option<String>,
}
