//! A storm of results on one run becomes few writes: a turn that would only write them down is held back for a moment.
//!
//! It delays no worker. A result after a pause is written at once, and so is a turn that dispatches, fails or ends
//! anything; the fewer jobs are out, the shorter the moment. Meanwhile the run stays with the process that acquired it,
//! so that the other replicas, which hear of every result, do not each make a turn of a few.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::runs::AcquiredRun;
use interlock_backend::verbs::{AcquireRun, ReleaseRun};
use interlock_backend::{StoreError, Wake};
use interlock_model::run::Run;
use interlock_model::run::advance::TurnContext;
use interlock_model::run::gather::{only_records_results, wait_for_more};
use interlock_model::step::StepRun;
use interlock_model::{Fence, RunId, StepKey, TenantId};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::computing::{Abandoned, TurnInput};
use super::{Engine, LeaseRequest, TURNS_IN_A_ROW_MAX};

/// A run that was acquired before its next turn is due. This process keeps it until then.
#[derive(Debug)]
pub(super) struct Early {
    tenant: TenantId,
    run: RunId,
    fence: Fence,
    wait: Duration,
}

/// Waits until the turn is due, or `shutdown` is called for, and makes it with all that has come by then. Once: whatever
/// the clocks say, a result waits no longer than that.
pub(super) async fn gather(engine: Arc<Engine>, early: Early, shutdown: CancellationToken) {
    let Early { tenant, run, fence, wait } = early;
    // Shutting down, nothing is waited for.
    let _ = shutdown.run_until_cancelled(sleep(wait)).await;
    // Only acquiring the run again shows what has come meanwhile. If another replica is faster, it makes the turn.
    if let Err(error) = engine.process.call(ReleaseRun { tenant: tenant.clone(), run, fence }).await {
        warn!(%tenant, %run, %error, "run lease not released; it expires");
    }
    let turns = engine.turns(&tenant, run, None, false);
    if let Err(error) = engine.run_locks.alone(run, turns).await {
        warn!(%tenant, %run, %error, "turn failed; the run stays ready");
    }
}

impl Engine {
    /// Makes turns of the run for as long as more has come, beginning with the one that was acquired. The run itself, still
    /// held, if the next turn `may_wait` and is not due yet.
    pub(super) async fn turns(
        &self,
        tenant: &TenantId,
        run: RunId,
        mut first: Option<(AcquiredRun, LeaseRequest)>,
        may_wait: bool,
    ) -> Result<Option<Early>, StoreError> {
        for _ in 0..TURNS_IN_A_ROW_MAX {
            let next = match first.take() {
                Some(first) => Some(first),
                None => self.acquire(tenant, run).await?,
            };
            let Some((acquired, request)) = next else { return Ok(None) };
            let fence = acquired.fence;
            match self.early(&acquired, may_wait).await {
                Ok(Some(wait)) => return Ok(Some(Early { tenant: tenant.clone(), run, fence, wait })),
                Ok(None) => {}
                Err(abandoned) => {
                    self.abandoned(tenant, run, &abandoned);
                    return Ok(None);
                }
            }
            if !Box::pin(self.turn(acquired, request, None)).await? {
                return Ok(None);
            }
        }
        self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        Ok(None)
    }

    /// The run, unless it is held or has an empty inbox, and the lease it was asked for.
    async fn acquire(
        &self,
        tenant: &TenantId,
        run: RunId,
    ) -> Result<Option<(AcquiredRun, LeaseRequest)>, StoreError> {
        let request = self.lease_request();
        let (holder, lease) = (self.process.instance.clone(), request.lease);
        let acquire = AcquireRun { tenant: tenant.clone(), run, holder, lease };
        let acquired = self.process.call(acquire).await?;
        Ok(acquired.map(|acquired| (acquired, request)))
    }

    /// How long until this turn is due. None: it is. An error of the store here happens again in the turn, which reports it.
    async fn early(&self, acquired: &AcquiredRun, may_wait: bool) -> Result<Option<Duration>, Abandoned> {
        let longest = self.gather_max;
        if !may_wait || acquired.now.since(acquired.head.updated_at) >= longest {
            return Ok(None);
        }
        let (start, version) = (&acquired.start, acquired.head.version);
        let Ok(steps) = self.steps(start, &acquired.head).await else { return Ok(None) };
        let wait = wait_for_more((&acquired.head, &steps), &acquired.inbox, acquired.now, longest);
        let wait = match wait {
            Some(wait) if self.would_only_write_down(acquired, &steps).await? => Some(wait),
            Some(_) | None => None,
        };
        // The turn, now or later, finds them there.
        self.cache_steps(start.run, version, steps);
        Ok(wait)
    }

    async fn would_only_write_down(
        &self,
        acquired: &AcquiredRun,
        steps: &BTreeMap<StepKey, StepRun>,
    ) -> Result<bool, Abandoned> {
        let AcquiredRun { start, head, inbox, now, bounds, .. } = acquired;
        let pinned = self.definitions.version(&start.tenant, &start.workflow, start.workflow_version).await;
        let Ok(Some(workflow)) = pinned else { return Ok(false) };
        let run = Run { start: start.clone(), head: head.clone(), steps: steps.clone() };
        let wall_lead = self.process.clock.wall_lead();
        let context = TurnContext { wall_lead, bounds: *bounds, ..TurnContext::at(*now) };
        let input = TurnInput { workflow, run, inbox: inbox.clone(), context };
        let turn = self.computer.compute(input, self.process.settings.turn_time_max, false).await?;
        Ok(only_records_results(head.status, inbox, &turn))
    }
}
