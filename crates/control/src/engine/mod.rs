//! Who goes next: takes runs that have something to take into account, and advances each by one turn.

mod arrivals;
mod cache;
mod gathering;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::runs::Taken;
use interlock_model::{RunId, TenantId};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) use cache::RunCache;
use gathering::{Early, gather};

use crate::deliveries::Delivery;
use crate::service::Control;
use crate::wakeups::Signal;

/// Advances runs until `shutdown`, then finishes the turns in hand. `looks`: also looks for ready runs by itself, because
/// no reconciler of this process does.
///
/// In lanes: while one waits for its commits, another takes the next runs, so that the store is never idle for us.
pub async fn run(control: Arc<Control>, looks: bool, shutdown: CancellationToken) {
    let mut lanes = JoinSet::new();
    if looks {
        lanes.spawn(look(control.clone(), shutdown.clone()));
    }
    for _ in 0..control.settings.engine_lanes.max(1) {
        lanes.spawn(run_lane(control.clone(), shutdown.clone()));
    }
    while let Some(ended) = lanes.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a lane of the engine ended by a bug");
        }
    }
}

async fn run_lane(control: Arc<Control>, shutdown: CancellationToken) {
    let woken = control.wakeups.waiter(Signal::RunReady);
    let mut gathering = JoinSet::new();
    while !shutdown.is_cancelled() {
        if let Some(tenant) = control.wakeups.next_ready() {
            let may_wait = gathering.len() < GATHERING_MAX;
            for early in advance_some(&control, &tenant, may_wait).await {
                gathering.spawn(gather(control.clone(), early, shutdown.clone()));
            }
            while gathering.try_join_next().is_some() {}
        } else {
            // None: it is time to stop.
            let _ = shutdown.run_until_cancelled(woken.notified()).await;
        }
    }
    while gathering.join_next().await.is_some() {}
}

/// Wake-ups may be lost: at the poll's pace somebody looks, for all lanes.
async fn look(control: Arc<Control>, shutdown: CancellationToken) {
    let woken = control.wakeups.waiter(Signal::RunReady);
    while shutdown.run_until_cancelled(tokio::time::sleep(control.settings.poll)).await.is_some() {
        match control.store.due(control.settings.take_max).await {
            Ok(due) => {
                for tenant in due.ready {
                    control.wakeups.remember_ready(tenant);
                    woken.notify_one();
                }
            }
            Err(error) => warn!(%error, "cannot look for ready runs; trying again"),
        }
    }
}

/// Takes a bounded number of the tenant's runs and makes a turn of each. A tenant with more goes to the end of the
/// line: one tenant's storm does not keep the others waiting. Returns the runs whose next turn is not due yet.
async fn advance_some(control: &Arc<Control>, tenant: &TenantId, may_wait: bool) -> Vec<Early> {
    let (asked, limit) = (control.ask_for_runs(), control.settings.take_max);
    match control.store.take_ready(tenant, &control.instance, asked.lease, limit).await {
        Ok(taken) => {
            if taken.len() == limit {
                control.wakeups.remember_ready(tenant.clone());
            }
            let advance = |run| advance_to_the_end(control.clone(), (run, asked), may_wait);
            let mut turns: JoinSet<Option<Early>> = taken.into_iter().map(advance).collect();
            let mut not_due = Vec::new();
            while let Some(ended) = turns.join_next().await {
                not_due.extend(ended.ok().flatten());
            }
            not_due
        }
        Err(error) => {
            warn!(%tenant, %error, "cannot take runs; trying again at the next look");
            Vec::new()
        }
    }
}

async fn advance_to_the_end(control: Arc<Control>, taken: (Taken, Asked), may_wait: bool) -> Option<Early> {
    let (tenant, run) = (taken.0.start.tenant.clone(), taken.0.start.run);
    let turns = control.turns(&tenant, run, Some(taken), may_wait);
    control.run_locks.alone(run, turns).await.unwrap_or_else(|error| {
        warn!(%tenant, %run, %error, "a turn was not made; the run stays ready");
        None
    })
}

/// Turns in a row that one caller makes for a run before it leaves the rest to the engine.
const TURNS_IN_A_ROW_MAX: usize = 16;

/// Runs that one lane holds back at once. Of more, each turn is made at once.
const GATHERING_MAX: usize = 64;

/// When runs were asked for, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) lease: Duration,
}

impl Control {
    /// About to take runs, for as long as is in force. A turn takes milliseconds; the lease is for the death of a process.
    pub(crate) fn ask_for_runs(&self) -> Asked {
        Asked { at: Instant::now(), lease: self.contention.in_force().lock_busy.lock_ttl() }
    }

    /// Makes a turn of a run that was taken, perhaps with a result, and those that follow from it. The caller is alone
    /// at the run.
    pub(crate) async fn turn_and_more(
        &self,
        taken: Taken,
        asked: Asked,
        delivery: Option<&Delivery>,
    ) -> Result<(), StoreError> {
        let (tenant, run) = (taken.start.tenant.clone(), taken.start.run);
        if Box::pin(self.turn(taken, asked, delivery)).await? {
            self.turns(&tenant, run, None, false).await?;
        }
        Ok(())
    }

    /// Advances this run now, after whoever of this process is at it, unless another replica does. Whoever holds it sees
    /// what was posted.
    pub(crate) async fn drive(&self, tenant: &TenantId, run: RunId) -> Result<(), StoreError> {
        // One that waits is enough: the others would stand behind it, one slow answer of the store after the other.
        if self.run_locks.is_awaited(run) {
            return Ok(());
        }
        self.run_locks.alone(run, self.turns(tenant, run, None, false)).await.map(|_| ())
    }
}
