//! A storm of results on one run becomes few writes: a turn that would only write them down is held back for a moment.
//!
//! Nobody is kept waiting by it. A result after a silence is written at once, and so is a turn that dispatches, fails or
//! ends anything; the fewer jobs are out, the shorter the moment. Meanwhile the run stays with the process that took it,
//! so that the other replicas, which hear of every result, do not each make a turn of a few.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::runs::Taken;
use interlock_backend::{StoreError, Wake};
use interlock_model::contention::RunStrategy;
use interlock_model::run::Run;
use interlock_model::run::advance::advance;
use interlock_model::run::gather::{only_writes_down, wait_for_more};
use interlock_model::step::StepRun;
use interlock_model::{Fence, RunId, StepKey, TenantId};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Asked, TURNS_IN_A_ROW_MAX};
use crate::service::Control;

/// A run that was taken before its next turn is due. It stays ours until then.
#[derive(Debug)]
pub(super) struct Early {
    tenant: TenantId,
    run: RunId,
    fence: Fence,
    wait: Duration,
}

/// Waits until the turn is due, or `shutdown` is called for, and makes it with all that has come by then. Once: whatever
/// the clocks say, a result waits no longer than that.
pub(super) async fn gather(control: Arc<Control>, early: Early, shutdown: CancellationToken) {
    let Early { tenant, run, fence, wait } = early;
    // None: it is time to stop, and nothing is waited for any more.
    let _ = shutdown.run_until_cancelled(sleep(wait)).await;
    // What has come meanwhile is only told by taking the run again. If another replica is faster, it is welcome.
    if let Err(error) = control.store.let_go(&tenant, run, fence).await {
        warn!(%tenant, %run, %error, "a run was not given back; its lease ends by itself");
    }
    let turns = control.turns(&tenant, run, None, false);
    if let Err(error) = control.run_locks.alone(run, turns).await {
        warn!(%tenant, %run, %error, "a turn was not made; the run stays ready");
    }
}

impl Control {
    /// Makes turns of the run for as long as more has come, beginning with the one that was taken. The run itself, still
    /// held, if the next turn `may_wait` and is not due yet.
    pub(super) async fn turns(
        &self,
        tenant: &TenantId,
        run: RunId,
        mut first: Option<(Taken, Asked)>,
        may_wait: bool,
    ) -> Result<Option<Early>, StoreError> {
        for _ in 0..TURNS_IN_A_ROW_MAX {
            let next = match first.take() {
                Some(first) => Some(first),
                None => self.take(tenant, run).await?,
            };
            let Some((taken, asked)) = next else { return Ok(None) };
            let fence = taken.fence;
            if may_wait && let Some(wait) = self.early(&taken).await {
                return Ok(Some(Early { tenant: tenant.clone(), run, fence, wait }));
            }
            if !Box::pin(self.turn(taken, asked, None)).await? {
                return Ok(None);
            }
        }
        self.wake(Wake::RunReady { tenant: tenant.clone() });
        Ok(None)
    }

    /// The run, unless it is held or has nothing to take into account, and when it was asked for.
    async fn take(&self, tenant: &TenantId, run: RunId) -> Result<Option<(Taken, Asked)>, StoreError> {
        let asked = self.ask_for_runs();
        let taken = self.store.take(tenant, run, &self.instance, asked.lease).await?;
        Ok(taken.map(|taken| (taken, asked)))
    }

    /// How long until this turn is due. None: it is. What goes wrong here goes wrong in the turn, too, and is told there.
    async fn early(&self, taken: &Taken) -> Option<Duration> {
        let longest = self.settings.gather_max;
        // Under the other strategy, results would be turned away while the run is held.
        if self.contention.run_strategy() != RunStrategy::Inbox
            || taken.now.since(taken.head.updated_at) >= longest
        {
            return None;
        }
        let (start, version) = (&taken.start, taken.head.version);
        let steps = self.steps(&start.tenant, start.run, version).await.ok()?;
        let wait = wait_for_more((&taken.head, &steps), &taken.inbox, taken.now, longest);
        let wait = match wait {
            Some(wait) if self.would_only_write_down(taken, &steps).await => Some(wait),
            Some(_) | None => None,
        };
        // The turn, now or later, finds them there.
        self.cached_runs.keep(start.run, version, steps);
        wait
    }

    async fn would_only_write_down(&self, taken: &Taken, steps: &BTreeMap<StepKey, StepRun>) -> bool {
        let Taken { start, head, inbox, now, .. } = taken;
        let pinned = self.workflow_version(&start.tenant, &start.workflow, start.workflow_version).await;
        let Ok(Some(workflow)) = pinned else { return false };
        let run = Run { start: start.clone(), head: head.clone(), steps: steps.clone() };
        advance(&workflow, run, inbox, *now).is_ok_and(|turn| only_writes_down(head.status, inbox, &turn))
    }
}
