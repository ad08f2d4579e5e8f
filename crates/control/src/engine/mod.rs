//! Who goes next: takes runs that have something to take into account, and advances each by one turn.

mod cache;
mod turn;

use std::collections::BTreeSet;
use std::sync::Arc;

use interlock_backend::StoreError;
use interlock_backend::runs::Taken;
use interlock_model::{RunId, TenantId};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) use cache::RunCache;

use crate::service::Control;
use crate::wakeups::Signal;

/// Advances runs until `shutdown`, then finishes the turns in hand.
pub async fn run(control: Arc<Control>, shutdown: CancellationToken) {
    let woken = control.wakeups.waiter(Signal::RunReady);
    let mut turns = JoinSet::new();
    let mut waiting = BTreeSet::new();
    while !shutdown.is_cancelled() {
        waiting.extend(control.wakeups.take_ready());
        if waiting.is_empty() {
            // Wake-ups may be lost; looking costs one read.
            let heard = tokio::time::timeout(control.settings.poll, woken.notified());
            match shutdown.run_until_cancelled(heard).await {
                None => break,
                Some(Ok(())) => {}
                Some(Err(_)) => waiting.extend(ready_tenants(&control).await),
            }
            continue;
        }
        // Round by round, a bounded number each: one tenant's storm does not keep the others waiting.
        for tenant in std::mem::take(&mut waiting) {
            if take_some(&control, &tenant, &mut turns).await {
                waiting.insert(tenant);
            }
        }
    }
    while turns.join_next().await.is_some() {}
}

async fn ready_tenants(control: &Control) -> Vec<TenantId> {
    match control.store.due(control.settings.take_max).await {
        Ok(due) => due.ready,
        Err(error) => {
            warn!(%error, "cannot look for ready runs; trying again");
            Vec::new()
        }
    }
}

/// Takes a few runs of the tenant and begins their turns. Whether there may be more.
async fn take_some(control: &Arc<Control>, tenant: &TenantId, turns: &mut JoinSet<()>) -> bool {
    let settings = &control.settings;
    while turns.len() >= settings.turns_max {
        turns.join_next().await;
    }
    let free = (settings.turns_max - turns.len()).min(settings.take_max);
    let taken = control.store.take_ready(tenant, &control.instance, settings.run_lease, free).await;
    match taken {
        Ok(taken) => {
            let may_have_more = taken.len() == free;
            for run in taken {
                turns.spawn(advance_to_the_end(control.clone(), run));
            }
            may_have_more
        }
        Err(error) => {
            warn!(%tenant, %error, "cannot take runs; trying again at the next look");
            false
        }
    }
}

async fn advance_to_the_end(control: Arc<Control>, taken: Taken) {
    let (tenant, run) = (taken.start.tenant.clone(), taken.start.run);
    match control.turn(taken).await {
        Ok(false) => {}
        Ok(true) => {
            if let Err(error) = control.drive(&tenant, run).await {
                warn!(%tenant, %run, %error, "a turn was not made; the run stays ready");
            }
        }
        Err(error) => warn!(%tenant, %run, %error, "a turn was not made; the run stays ready"),
    }
}

/// Turns in a row that one caller makes for a run before it leaves the rest to the engine.
const TURNS_IN_A_ROW_MAX: usize = 16;

impl Control {
    /// Advances this run now, unless somebody else does. Whoever holds it sees what was posted.
    pub(crate) async fn drive(&self, tenant: &TenantId, run: RunId) -> Result<(), StoreError> {
        for _ in 0..TURNS_IN_A_ROW_MAX {
            let taken = self.store.take(tenant, run, &self.instance, self.settings.run_lease).await?;
            let Some(taken) = taken else { return Ok(()) };
            if !self.turn(taken).await? {
                return Ok(());
            }
        }
        self.wake(interlock_backend::Wake::RunReady { tenant: tenant.clone() });
        Ok(())
    }
}
