//! Workers on NATS, as they were last heard. They serve every tenant, or the one that they name.

use interlock_model::{Fence, TenantId, Timestamp, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;

/// The most workers. A new one beyond that is refused until old ones are forgotten.
pub const REGISTRY_MAX: usize = 10_000;

/// What a worker serves, from its handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// What it is ready to serve.
    pub topics: Vec<Topic>,
}

/// The state of a worker, from its heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The only tenant that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    pub jobs_active: u32,
    /// The most jobs at once; zero if it is unknown.
    pub jobs_max: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RegisteredWorker {
    pub worker: WorkerId,
    /// Absent until its handshake: nothing is pushed to it before.
    pub handshake: Option<Handshake>,
    /// Absent until its first heartbeat.
    pub beat: Option<Beat>,
    pub last_seen_at: Timestamp,
    /// It is given no new jobs, and keeps those that it has.
    pub is_draining: bool,
}

/// All workers, at one moment of the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Registry {
    pub now: Timestamp,
    pub workers: Vec<RegisteredWorker>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegisterNatsWorker {
    pub worker: WorkerId,
    #[serde(serialize_with = "wire::as_document")]
    pub handshake: Handshake,
}
verb!(write => RegisterNatsWorker, "register_nats_worker", "register a worker", ());

/// Answers with the beat before this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordBeat {
    pub worker: WorkerId,
    #[serde(serialize_with = "wire::as_document")]
    pub beat: Beat,
}
verb!(write => RecordBeat, "record_beat", "record a heartbeat", Option<Beat>);

/// From now on the worker gets no new jobs, or gets them again. It stays so until the worker is forgotten.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrainNatsWorker {
    pub worker: WorkerId,
    pub is_draining: bool,
}
verb!(write => DrainNatsWorker, "drain_nats_worker", "drain a worker", ());

/// By name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadRegistry;
verb!(read => ReadRegistry, "read_registry", "list workers on NATS", Registry);

/// Saves who is online, for people and programs that read the store itself. Only the live holder of the snapshot
/// writer's lock may, under its fence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaveSnapshot {
    pub fence: Fence,
    pub snapshot: String,
}
verb!(write => SaveSnapshot, "save_snapshot", "save the snapshot of the workers", ());

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadSnapshot;
verb!(read => ReadSnapshot, "read_snapshot", "read the snapshot of the workers", Option<String>);

/// Removes a worker, unless it was heard after `unless_after`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForgetNatsWorker {
    pub worker: WorkerId,
    pub unless_after: Timestamp,
}
verb!(write => ForgetNatsWorker, "forget_nats_worker", "forget a worker", ());
