//! Releases keys that were reserved for starts that created nothing, in the background.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::Store;
use interlock_backend::reservations::ReserveIdempotencyKey;
use interlock_backend::verbs::ReleaseIdempotencyKey;
use interlock_model::retry::{RetryPolicy, Seed};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::contention::{CleanupContext, Tally};

/// Keys that this process releases at once. Beyond that a reservation expires.
const CLEANUPS_MAX: usize = 1_024;

/// Between two tries to release a key.
const PAUSE: RetryPolicy = RetryPolicy::EqualJitter { base_ms: 50, cap_ms: 2_000 };

/// Permits to release keys.
#[derive(Debug, Clone)]
pub(super) struct Cleanups(Arc<Semaphore>);

impl Default for Cleanups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CLEANUPS_MAX)))
    }
}

/// A key that is reserved for a run, or may be. Dropped before it is settled, it is released.
pub(super) struct ReservedKey {
    cleanups: Cleanups,
    store: Store,
    tally: Arc<Tally>,
    reserve: ReserveIdempotencyKey,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// There is nothing to release.
    Settled,
    Failed(CleanupContext),
}

impl ReservedKey {
    pub(super) fn new(
        cleanups: Cleanups,
        store: Store,
        tally: Arc<Tally>,
        reserve: &ReserveIdempotencyKey,
    ) -> Self {
        Self {
            cleanups,
            store,
            tally,
            reserve: reserve.clone(),
            // Until its start says otherwise, only a client that disconnects drops it.
            ending: Ending::Failed(CleanupContext::Cancelled),
        }
    }

    /// The key stands for a run now, or was never reserved.
    pub(super) fn settle(&mut self) {
        self.ending = Ending::Settled;
    }

    /// Sets why it is released, unless that is set or it is settled.
    pub(super) fn fail(&mut self, context: CleanupContext) {
        if self.ending == Ending::Failed(CleanupContext::Cancelled) {
            self.ending = Ending::Failed(context);
        }
    }
}

impl Drop for ReservedKey {
    fn drop(&mut self) {
        let Ending::Failed(context) = self.ending else { return };
        // Without a runtime the process ends: then the reservation expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(room) = self.cleanups.0.clone().try_acquire_owned() else {
            self.tally.cleanup_failed(context);
            return;
        };
        let (store, tally, reserve) = (self.store.clone(), self.tally.clone(), self.reserve.clone());
        runtime.spawn(async move {
            release(&store, &tally, &reserve, context).await;
            drop(room);
        });
    }
}

/// Compares and deletes, until the store has answered or the reservation has surely expired.
async fn release(store: &Store, tally: &Tally, reserve: &ReserveIdempotencyKey, context: CleanupContext) {
    let ReserveIdempotencyKey { tenant, workflow, intent, run, lease, .. } = reserve;
    let over_at = Instant::now() + *lease;
    let mut pauses = PAUSE.schedule(Seed::of_admission(*run));
    while let Err(error) = store
        .call(ReleaseIdempotencyKey {
            tenant: tenant.clone(),
            workflow: workflow.clone(),
            key: intent.key.clone(),
            run: *run,
        })
        .await
    {
        tally.cleanup_failed(context);
        tracing::warn!(%tenant, %run, %error, context = context.name(), "reserved key not released");
        let pause: Duration = pauses.next().unwrap_or_default();
        if Instant::now() + pause >= over_at {
            return;
        }
        sleep(pause).await;
    }
}
