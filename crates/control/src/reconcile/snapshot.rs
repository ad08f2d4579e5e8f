//! Writes down which workers are there, for people and programs that read the store itself.

use interlock_backend::StoreError;
use interlock_backend::registry::{RegisteredWorker, Registry};
use interlock_model::{Fence, InstanceId};
use serde_json::{Value, json};

use crate::service::Control;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub workers: usize,
}

pub(super) async fn write(control: &Control, fence: Fence) -> Result<Snapshot, StoreError> {
    let registry = control.store.registry().await?;
    let document = document(&registry, &control.instance, fence).to_string();
    control.store.save_snapshot(fence, &document).await?;
    Ok(Snapshot { workers: registry.workers.len() })
}

/// It says when it was made and by whom: whoever reads it must be able to see how old it is.
fn document(registry: &Registry, writer: &InstanceId, fence: Fence) -> Value {
    let workers: Vec<_> = registry.workers.iter().map(worker).collect();
    json!({
        "captured_at": registry.now.to_string(),
        "writer": writer.as_str(),
        "fence": fence.number(),
        "workers": workers,
    })
}

fn worker(known: &RegisteredWorker) -> Value {
    let beat = known.beat.clone().unwrap_or_default();
    json!({
        "worker_id": known.worker.as_str(),
        "topics": known.handshake.as_ref().map(|handshake| handshake.topics.as_slice()).unwrap_or_default(),
        "capabilities": beat.capabilities,
        "pool": beat.pool,
        "tenant": beat.tenant,
        "active_jobs": beat.jobs_active,
        "max_parallel_jobs": beat.jobs_max,
        "last_seen_at": known.last_seen_at.to_string(),
    })
}
