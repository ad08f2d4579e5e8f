//! Workers on the bus, as they last spoke. They serve every tenant, or the one that they name.

use async_trait::async_trait;
use interlock_model::{Fence, TenantId, Timestamp, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Workers that are kept at most. A new one beyond that is refused until old ones are forgotten.
pub const REGISTRY_MAX: usize = 10_000;

/// A worker that says what it can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// What it is ready to serve.
    pub topics: Vec<Topic>,
}

/// A worker that says how it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The only tenant that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub jobs_active: u32,
    /// Jobs that it takes at once; zero if it does not say.
    pub jobs_max: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredWorker {
    pub worker: WorkerId,
    /// Absent until it has introduced itself: nothing is pushed to it before.
    pub handshake: Option<Handshake>,
    /// Absent until its first heartbeat.
    pub beat: Option<Beat>,
    pub last_seen_at: Timestamp,
    /// It is given no new jobs, and keeps those that it has.
    pub is_draining: bool,
}

/// All workers, at one moment of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    pub now: Timestamp,
    pub workers: Vec<RegisteredWorker>,
}

#[async_trait]
pub trait RegistryStore: Send + Sync {
    async fn introduce(&self, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError>;
    /// Returns what it said the last time.
    async fn beat(&self, worker: &WorkerId, beat: &Beat) -> Result<Option<Beat>, StoreError>;
    /// From now on the worker is given no new jobs, or is again. It stays so until it is forgotten.
    async fn drain(&self, worker: &WorkerId, is_draining: bool) -> Result<(), StoreError>;
    /// By name.
    async fn registry(&self) -> Result<Registry, StoreError>;
    /// Writes down who is there, for people and programs that read the store itself. Only the live holder of the
    /// snapshot writer's lock may, under its fence.
    async fn save_snapshot(&self, fence: Fence, snapshot: &str) -> Result<(), StoreError>;
    async fn snapshot(&self) -> Result<Option<String>, StoreError>;
    /// Removes a worker, unless it has spoken after `unless_after`.
    async fn forget_worker(&self, worker: &WorkerId, unless_after: Timestamp) -> Result<(), StoreError>;
}
