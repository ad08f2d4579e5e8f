//! One turn of one run: read, decide, write once, wake.

use std::time::Duration;

use interlock_backend::runs::{AcquiredRun, Commit};
use interlock_backend::verbs::BeginTry;
use interlock_backend::{StoreError, Wake};
use interlock_model::run::advance::{Advance, Effects, TurnContext};
use interlock_model::run::{QueueExit, Run};
use interlock_model::{Fence, RunId, TenantId};
use tracing::{error, warn};

use super::arrivals::{Arrivals, ResultArrival};
use super::computing::{Abandoned, TurnInput};
use super::run_lock::RunLease;
use super::{Engine, LeaseRequest};
use crate::journal;

/// Why a turn was not made.
#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
}

impl Engine {
    /// Advances an acquired run and releases it. Returns whether more has come for it meanwhile.
    pub(super) async fn turn(
        &self,
        acquired: AcquiredRun,
        request: LeaseRequest,
        first: Option<&ResultArrival>,
    ) -> Result<bool, StoreError> {
        let lease = RunLease::of(&self.process, &acquired, request);
        let arrivals = Arrivals::of(&acquired, request, first);
        let (tenant, run) = (acquired.start.tenant.clone(), acquired.start.run);
        let made = lease.guard(Box::pin(self.try_turn(acquired, request))).await;
        if request.try_number.is_some() && !matches!(made, Ok(Err(TurnError::Abandoned(_)))) {
            self.suspects.survived(run);
        }
        match made {
            Ok(Ok(has_more)) => {
                arrivals.settled(&self.contention);
                Ok(has_more)
            }
            // The lease is left to expire: so the store counts it.
            Ok(Err(TurnError::Abandoned(abandoned))) => {
                self.abandoned(&tenant, run, &abandoned);
                Ok(false)
            }
            // Another replica has the run, or it was deleted: this turn is void.
            Ok(Err(TurnError::Store(error @ (StoreError::Fenced { .. } | StoreError::NotFound { .. })))) => {
                if journal::commit_refused(&tenant, run, &error) {
                    self.process.counts.update(|counted| counted.commits_refused += 1);
                }
                Ok(false)
            }
            Ok(Err(TurnError::Store(error))) => {
                // The lease would expire later. Failing at this, too, changes nothing.
                lease.release().await;
                Err(error)
            }
            Err(loss) => {
                warn!(%tenant, %run, %loss, "turn dropped; the next holder of the run makes it");
                Ok(false)
            }
        }
    }

    pub(super) fn abandoned(&self, tenant: &TenantId, run: RunId, abandoned: &Abandoned) {
        error!(%tenant, %run, %abandoned, "turn abandoned; the run is tried again alone when its lease has expired");
        self.process.counts.update(|counted| counted.turns_abandoned += 1);
    }

    /// Counts a run that waits for a limit no more.
    fn left_queue(&self, exit: Option<QueueExit>, waited: Duration) {
        let Some(exit) = exit else { return };
        self.process.counts.update(|counted| {
            counted.queue_exits[exit as usize] += 1;
            if exit == QueueExit::Granted {
                counted.queue_wait.observe(waited.as_secs_f64() * 1_000.0);
            }
        });
    }

    async fn try_turn(&self, acquired: AcquiredRun, request: LeaseRequest) -> Result<bool, TurnError> {
        let trace = self.process.traces.turn(&acquired);
        let AcquiredRun { start, head, inbox, inbox_end, fence, now, bounds } = acquired;
        let (tenant, id, version) = (start.tenant.clone(), start.run, head.version);
        let pinned = self.definitions.version(&tenant, &start.workflow, start.workflow_version).await?;
        let workflow = pinned.ok_or_else(|| StoreError::not_found("workflow", &start.workflow))?;
        let steps = self.steps(&start, &head).await?;
        let waits = self.why.waits_timing_out(&tenant, &steps, (&inbox, now)).await;
        let (status_before, waited) = (head.status, now.since(start.created_at));
        let run = Run { start, head, steps };
        let context = TurnContext { now, wall_lead: self.process.clock.wall_lead(), bounds, waits };
        let input = TurnInput { workflow, run, inbox, context };
        if let Some(number) = request.try_number {
            let (tenant, lease) = (tenant.clone(), request.lease);
            self.process.call(BeginTry { tenant, run: id, fence, lease, number }).await?;
        }
        let time_max = self.process.settings.turn_time_max;
        let advanced = self.computer.compute(input, time_max, request.try_number.is_some()).await?;
        let steps = advanced.run.steps.clone();
        let mut commit = commit_of(advanced, (tenant.clone(), id), (fence, version, inbox_end));
        commit.dead_letters_max = self.process.settings.dead_letters_max;
        commit.held = self.process.settings.dispatch_policy.hold_back(&tenant, &mut commit.dispatched);
        let log = journal::TurnLog::of(&commit);
        let queue_exit = QueueExit::of(status_before, &commit.head);
        let queued = commit.dispatched.iter().chain(commit.held.iter().map(|held| &held.job));
        let due_at = queued.filter_map(|job| job.queue_until).chain(commit.head.due_at).min();
        let committed = self.process.call(commit).await?;
        if let Some(due_at) = due_at {
            self.process.due_in(due_at.since(now));
        }
        log.committed();
        self.left_queue(queue_exit, waited);
        trace.committed(&log);
        if !log.status.is_final() {
            self.cache_steps(id, committed.version, steps);
        }
        if committed.granted > 0 || log.has_posted {
            self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        }
        self.process.announce_jobs(&tenant, log.dispatched.into_iter().map(|(_, topic)| topic));
        if log.wants_children {
            self.process.wake(Wake::ChildrenWanted { tenant: tenant.clone() });
        }
        if log.has_held {
            self.process.wake(Wake::JobsHeld { tenant });
        }
        if !log.revoked.is_empty() {
            self.process.wake(Wake::JobsRevoked { jobs: log.revoked });
        }
        self.process.wake(Wake::RunChanged { run: id });
        Ok(committed.has_more)
    }
}

fn commit_of(
    advanced: Advance,
    (tenant, run): (TenantId, RunId),
    (fence, version, inbox_end): (Fence, u64, u64),
) -> Commit {
    let Advance { run: after, changed, effects, events, continues } = advanced;
    let Effects { dispatched, revoked, approvals_opened, approvals_withdrawn, buried, children, waits } =
        effects;
    let steps = changed.into_iter().filter_map(|key| after.steps.get(&key).cloned().map(|step| (key, step)));
    Commit {
        tenant,
        run,
        fence,
        version,
        steps: steps.collect(),
        head: after.head,
        inbox_end,
        events,
        dispatched,
        held: Vec::new(),
        revoked,
        approvals_opened,
        approvals_withdrawn,
        buried,
        children,
        waits,
        dead_letters_max: u32::MAX,
        continues,
    }
}
