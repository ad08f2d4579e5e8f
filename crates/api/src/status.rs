//! The status of a server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Time;
use crate::retry_policies::RetryPolicyView;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatusView {
    pub version: String,
    /// A new one at each start of the process.
    pub instance_id: String,
    pub uptime_ms: u64,
    pub roles: Vec<String>,
    pub backend: BackendStatus,
    pub strategies: Strategies,
    /// The retry policies in force in this process.
    pub retry_policies: Vec<RetryPolicyView>,
    /// The running rollout, as this process sees it.
    #[schema(required)]
    pub rollout: Option<RolloutStatus>,
    /// Other policies in force, by name.
    pub policies: BTreeMap<String, Value>,
    pub store: StoreStatus,
    pub bus: BusStatus,
    /// Number of tenants that were ever used. Only for keys that cover all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackendStatus {
    /// Such as `embedded`.
    pub kind: String,
    /// What a crash may lose, for people.
    pub durability: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Strategies {
    /// How starts are decided, such as `atomic`.
    pub admission: String,
    /// How results reach a busy run, such as `inbox`.
    pub run: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RolloutStatus {
    pub id: String,
    /// Share of the runs.
    pub share_percent: f64,
    /// The policy that is tried.
    pub candidate: String,
    pub by: String,
    pub ends_at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// Commands sent to the store, without regular polls.
    pub commands_sent: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BusStatus {
    pub kind: String,
    pub connected: bool,
}

/// `GET /healthz`: the process is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// `GET /readyz`: whether the store answers, and whether the bus does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    pub ready: bool,
    pub store: bool,
    pub bus: bool,
}
