//! Keys that were reserved for starts that came to nothing, given back behind their clients' backs.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::Store;
use interlock_backend::reservations::Reserve;
use interlock_model::retry::{RetryPolicy, Seed};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::contention::{CleanupContext, Tally};
use crate::service::Control;

/// Keys that this process may be giving back at once. Beyond that a reservation ends by itself.
const CLEANUPS_MAX: usize = 1_024;

/// Between two tries to give a key back.
const PAUSE: RetryPolicy = RetryPolicy::EqualJitter { base_ms: 50, cap_ms: 2_000 };

/// Room for those who give keys back.
#[derive(Debug, Clone)]
pub(crate) struct Cleanups(Arc<Semaphore>);

impl Default for Cleanups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CLEANUPS_MAX)))
    }
}

/// A key that is reserved for a run, or may be. Dropped before it is settled, it is given back.
pub(super) struct ReservedKey {
    cleanups: Cleanups,
    store: Arc<dyn Store>,
    tally: Arc<Tally>,
    reserve: Reserve,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Nothing of it is left to give back.
    Settled,
    Failed(CleanupContext),
}

impl ReservedKey {
    pub(super) fn new(control: &Control, reserve: &Reserve) -> Self {
        Self {
            cleanups: control.cleanups.clone(),
            store: control.store.clone(),
            tally: control.contention.shared_tally(),
            reserve: reserve.clone(),
            // Until its start says otherwise, it can only be dropped by a client that goes.
            ending: Ending::Failed(CleanupContext::Cancelled),
        }
    }

    /// The key stands for a run now, or was never reserved.
    pub(super) fn settle(&mut self) {
        self.ending = Ending::Settled;
    }

    /// Says why it is to be given back, unless that was said before, or it is settled.
    pub(super) fn fail(&mut self, context: CleanupContext) {
        if self.ending == Ending::Failed(CleanupContext::Cancelled) {
            self.ending = Ending::Failed(context);
        }
    }
}

impl Drop for ReservedKey {
    fn drop(&mut self) {
        let Ending::Failed(context) = self.ending else { return };
        // Without a runtime the process ends: then the reservation ends by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(room) = self.cleanups.0.clone().try_acquire_owned() else {
            self.tally.cleanup_failed(context);
            return;
        };
        let (store, tally, reserve) = (self.store.clone(), self.tally.clone(), self.reserve.clone());
        runtime.spawn(async move {
            give_back(&*store, &tally, &reserve, context).await;
            drop(room);
        });
    }
}

/// Compares and deletes, until the store has answered or the reservation has surely run out.
async fn give_back(store: &dyn Store, tally: &Tally, reserve: &Reserve, context: CleanupContext) {
    let Reserve { tenant, workflow, intent, run, lease, .. } = reserve;
    let over_at = Instant::now() + *lease;
    let mut pauses = PAUSE.schedule(Seed::of_admission(*run));
    while let Err(error) = store.release_key(tenant, workflow, &intent.key, *run).await {
        tally.cleanup_failed(context);
        tracing::warn!(%tenant, %run, %error, context = context.name(), "a reserved key was not given back");
        let pause: Duration = pauses.next().unwrap_or_default();
        if Instant::now() + pause >= over_at {
            return;
        }
        sleep(pause).await;
    }
}
