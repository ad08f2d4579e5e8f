//! Workers that fell silent lose their jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::registry::RegisteredWorker;
use interlock_model::{Timestamp, WorkerId};
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;

/// Looks in one bound of silence.
const LOOKS: u32 = 6;

/// Looks for silent workers until `shutdown`. Every replica does, and any number of them do no harm.
pub(crate) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let pause = (shared.settings.silence / LOOKS).clamp(Duration::from_millis(20), Duration::from_secs(5));
    let mut watch = Watch { shared, finished: HashMap::new() };
    while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        if let Some(Err(error)) = shutdown.run_until_cancelled(watch.look()).await {
            watch.shared.hearing.disturb();
            if let Some(kept_back) = watch.shared.quiet.may_warn() {
                tracing::warn!(%error, kept_back, "cannot look for silent workers; trying again");
            }
        }
    }
}

struct Watch {
    shared: Arc<Shared>,
    /// Silent workers that have nothing any more, and when they last spoke.
    finished: HashMap<WorkerId, Timestamp>,
}

impl Watch {
    async fn look(&mut self) -> Result<(), StoreError> {
        let settings = &self.shared.settings;
        // Without NATS, or without the store, every worker looks dead.
        if self.shared.hearing.undisturbed_for() < settings.silence {
            return Ok(());
        }
        let (silence, forget_after) = (settings.silence, settings.forget_after);
        let registry = self.shared.workers.registry().await?;
        self.finished.retain(|worker, _| registry.workers.iter().any(|known| known.worker == *worker));
        for known in &registry.workers {
            let silent = registry.now.since(known.last_seen_at);
            if silent <= silence {
                continue;
            }
            self.abandon(known, silent).await?;
            if silent > forget_after {
                self.shared.workers.forget(&known.worker, known.last_seen_at).await?;
            }
        }
        Ok(())
    }

    /// Takes the worker's jobs. Again for a while, because a replica that saw it alive a moment ago may just be giving
    /// it another one.
    async fn abandon(&mut self, known: &RegisteredWorker, silent: Duration) -> Result<(), StoreError> {
        let is_finished = self.finished.get(&known.worker) == Some(&known.last_seen_at);
        if is_finished {
            return Ok(());
        }
        let lost = self.shared.workers.abandon(&known.worker).await?;
        if lost > 0 {
            self.shared.tally.jobs_abandoned.add(lost);
            tracing::warn!(worker = %known.worker, ?silent, lost, "a worker fell silent; its jobs go to others");
        }
        if silent > self.shared.settings.silence * 2 {
            self.finished.insert(known.worker.clone(), known.last_seen_at);
        }
        Ok(())
    }
}
