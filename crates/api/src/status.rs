//! What a server says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Time;
use crate::retry_policies::RetryPolicyView;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatusView {
    pub version: String,
    /// Of this start of this process.
    pub instance_id: String,
    pub uptime_ms: u64,
    pub roles: Vec<String>,
    pub backend: BackendStatus,
    pub strategies: Strategies,
    /// How contenders wait, in force in this process.
    pub retry_policies: Vec<RetryPolicyView>,
    /// The roll-out that runs, as this process knows it.
    #[schema(required)]
    pub rollout: Option<RolloutStatus>,
    /// Other policies in force, by name.
    pub policies: BTreeMap<String, Value>,
    pub store: StoreStatus,
    pub bus: BusStatus,
    /// How many tenants were ever used. Only for those who may see all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackendStatus {
    /// Such as `embedded`.
    pub kind: String,
    /// What a crash may lose, in the backend's words.
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
    /// Of the runs.
    pub share_percent: f64,
    /// The policy that they try.
    pub candidate: String,
    pub by: String,
    pub ends_at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// Commands sent to get something done. Regular looks at whether there is something to do are not counted.
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
