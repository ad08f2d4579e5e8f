//! The bus wakes. It never carries the truth, so a lost or doubled wake-up costs time and nothing else.

use interlock_model::lock::LockName;
use interlock_model::{JobId, LockRequest, RunId, TenantId, Topic, WorkflowId};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// "Look": something may have changed there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// A run of this tenant has something to take into account.
    RunReady { tenant: TenantId },
    /// A policy must decide about a held job of this tenant.
    JobsHeld { tenant: TenantId },
    /// A child of a run of this tenant is to be started.
    ChildrenWanted { tenant: TenantId },
    /// How many jobs wait for a worker.
    JobsReady { tenant: TenantId, topic: Topic, jobs: u32 },
    /// Its timeline has grown.
    RunChanged { run: RunId },
    /// These jobs have ended: their workers may stop.
    JobsRevoked { jobs: Vec<JobId> },
    /// A workflow was saved or deleted.
    WorkflowChanged { tenant: TenantId, workflow: WorkflowId },
    /// The system's limits were written.
    LimitsChanged,
    /// API keys were created or revoked.
    KeysChanged,
    /// A worker takes jobs again.
    WorkersChanged,
    /// A tuning was changed, or a rollout began or ended.
    TuningChanged,
    /// It is this request's turn to take the lock that it waits for. Its name is its client's, and others' may be the same.
    LockTurn { lock: LockName, request: LockRequest },
}

pub trait Bus: Send + Sync {
    fn wake(&self, wake: Wake);
    /// Wake-ups from now on. A receiver that falls behind loses the oldest.
    fn subscribe(&self) -> broadcast::Receiver<Wake>;
    /// Whether other processes hear us now. If not, they look at the poll's pace.
    fn is_connected(&self) -> bool;
}

/// The bus of one process.
#[derive(Debug)]
pub struct InProcessBus {
    sender: broadcast::Sender<Wake>,
}

/// Wake-ups that a slow listener may be behind before it loses some and has to look by itself.
const BACKLOG: usize = 4_096;

impl Default for InProcessBus {
    fn default() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0 }
    }
}

impl Bus for InProcessBus {
    fn wake(&self, wake: Wake) {
        // It is fine if there are no receivers: a new one reads the store first.
        let _ = self.sender.send(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.sender.subscribe()
    }

    /// There is no other process.
    fn is_connected(&self) -> bool {
        true
    }
}
