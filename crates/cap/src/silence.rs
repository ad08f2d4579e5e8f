//! Silent workers lose their jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::registry::RegisteredWorker;
use interlock_model::{Timestamp, WorkerId};
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;

/// Scans per bound of silence.
const SCANS: u32 = 6;

/// Scans for silent workers until `shutdown`, in every replica.
pub(crate) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let pause = (shared.settings.silence / SCANS).clamp(Duration::from_millis(20), Duration::from_secs(5));
    let mut watch = SilenceWatch { shared, finished: HashMap::new() };
    while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        if let Some(Err(error)) = shutdown.run_until_cancelled(watch.scan()).await {
            watch.shared.connectivity.heartbeat_lost();
            tracing::warn!(%error, "cannot scan for silent workers; retrying");
        }
    }
}

struct SilenceWatch {
    shared: Arc<Shared>,
    /// Silent workers without jobs, and their last heartbeats.
    finished: HashMap<WorkerId, Timestamp>,
}

impl SilenceWatch {
    async fn scan(&mut self) -> Result<(), StoreError> {
        let settings = &self.shared.settings;
        // Without NATS or the store, every worker looks silent.
        if self.shared.connectivity.complete_for() < settings.silence {
            return Ok(());
        }
        let (silence, forget_after) = (settings.silence, settings.forget_after);
        let registry = self.shared.control.workers.registry().await?;
        self.finished.retain(|worker, _| registry.workers.iter().any(|known| known.worker == *worker));
        for known in &registry.workers {
            let silent = registry.now.since(known.last_seen_at);
            if silent <= silence {
                continue;
            }
            self.abandon(known, silent).await?;
            if silent > forget_after {
                self.shared.control.workers.forget(&known.worker, known.last_seen_at).await?;
            }
        }
        Ok(())
    }

    /// Ends the leases of the worker's jobs. Repeated for a while, because a replica that saw it online a moment ago may
    /// be pushing another job to it.
    async fn abandon(&mut self, known: &RegisteredWorker, silent: Duration) -> Result<(), StoreError> {
        let is_finished = self.finished.get(&known.worker) == Some(&known.last_seen_at);
        if is_finished {
            return Ok(());
        }
        self.shared.confirmations.forget_worker(&known.worker);
        let lost = self.shared.control.workers.abandon(&known.worker).await?;
        if lost > 0 {
            self.shared.counts.jobs_abandoned.add(lost);
            tracing::warn!(worker = %known.worker, ?silent, lost, "NATS worker is silent; its jobs are dispatched again");
        }
        if silent > self.shared.settings.silence * 2 {
            self.finished.insert(known.worker.clone(), known.last_seen_at);
        }
        Ok(())
    }
}
