//! Advances runs: acquires those with something in their inbox, and makes one turn of each.

mod arrivals;
mod computing;
mod gathering;
mod run_lock;
mod suspects;
mod turn;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::runs::AcquiredRun;
use interlock_backend::verbs::{AcquireReadyRuns, FindDue, ReadRun};
use interlock_model::contention::RunStrategy;
use interlock_model::run::{Head, RunStatus, Start, StartedFrom};
use interlock_model::step::StepRun;
use interlock_model::{RunId, StepKey, TenantId};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

pub(crate) use arrivals::ResultArrival;
use computing::Computer;
use gathering::{Early, gather};
use run_lock::RunLocks;
use suspects::Suspects;

use crate::bounded::Bounded;
use crate::contention::Contention;
use crate::definitions::Definitions;
use crate::process::Process;
use crate::wakeups::Signal;
use crate::why::Why;

/// Turns in a row that one caller makes for a run before it leaves the rest to the engine.
const TURNS_IN_A_ROW_MAX: usize = 16;

/// Runs that one lane holds back at once. Beyond that, turns are made at once.
const GATHERING_MAX: usize = 64;

/// Advances runs, one turn at a time per run.
pub struct Engine {
    process: Arc<Process>,
    definitions: Arc<Definitions>,
    contention: Arc<Contention>,
    why: Arc<Why>,
    /// The longest that a turn waits for more results; zero under the lock strategy, which refuses results meanwhile.
    gather_max: Duration,
    /// The steps of runs that were advanced a moment ago, by version: a fan-out of thousands is not read again for every
    /// result. The commit checks the version again.
    cached_runs: Mutex<Bounded<RunId, (u64, Steps)>>,
    run_locks: RunLocks,
    computer: Computer,
    suspects: Suspects,
}

type Steps = BTreeMap<StepKey, StepRun>;

/// When runs were asked for, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseRequest {
    pub(crate) at: Instant,
    pub(crate) lease: Duration,
    /// The run is a suspect and tried alone, as this try in a row.
    pub(crate) try_number: Option<u32>,
}

impl Engine {
    pub(crate) fn new(
        process: Arc<Process>,
        definitions: Arc<Definitions>,
        contention: Arc<Contention>,
        why: Arc<Why>,
    ) -> Self {
        let settings = &process.settings;
        let gather_max = match settings.run_strategy {
            RunStrategy::Inbox => settings.gather_max,
            RunStrategy::Lock => Duration::ZERO,
        };
        let cached_runs = Mutex::new(Bounded::new(settings.cached_runs_max));
        Self {
            process,
            definitions,
            contention,
            why,
            gather_max,
            cached_runs,
            run_locks: RunLocks::default(),
            computer: Computer::default(),
            suspects: Suspects::default(),
        }
    }

    /// A turn takes milliseconds; the lease is for the death of a process.
    pub(crate) fn lease_request(&self) -> LeaseRequest {
        let lease = self.contention.in_force().tunings.lock_busy.lock_ttl();
        LeaseRequest { at: Instant::now(), lease, try_number: None }
    }

    fn cache_steps(&self, run: RunId, version: u64, steps: Steps) {
        self.cached_runs.lock().unwrap_or_else(PoisonError::into_inner).insert(run, (version, steps));
    }

    /// The run's steps as they were when it was acquired, which leave the cache.
    async fn steps(&self, start: &Start, head: &Head) -> Result<Steps, StoreError> {
        let (run, version) = (start.run, head.version);
        let cached = self.cached_runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        if let Some((_, steps)) = cached.filter(|(of, _)| *of == version) {
            return Ok(steps);
        }
        if head.status == RunStatus::Pending && start.origin == StartedFrom::Request {
            // It has none yet, and what it was started with may be large.
            return Ok(Steps::new());
        }
        let found = self.process.call(ReadRun { tenant: start.tenant.clone(), run }).await?;
        // It may be newer than what was acquired only if the lease was lost; then the commit is rejected.
        found.map(|run| run.steps).ok_or_else(|| StoreError::not_found("run", run))
    }

    /// Runs `work` now, unless a task of this process is at the run or waits for it: then nothing.
    pub(crate) async fn try_alone<T>(&self, run: RunId, work: impl Future<Output = T>) -> Option<T> {
        self.run_locks.alone_at_once(run, work).await
    }

    /// Makes a turn of a run that was acquired with a result, and those that follow from it. The caller is alone at the
    /// run.
    pub(crate) async fn advance_with(
        &self,
        acquired: AcquiredRun,
        request: LeaseRequest,
        arrival: &ResultArrival,
    ) -> Result<(), StoreError> {
        let (tenant, run) = (acquired.start.tenant.clone(), acquired.start.run);
        if Box::pin(self.turn(acquired, request, Some(arrival))).await? {
            self.turns(&tenant, run, None, false).await?;
        }
        Ok(())
    }

    /// Advances this run now, after the tasks of this process that are at it. If another replica holds it, that one sees
    /// what was posted.
    pub(crate) async fn drive(&self, tenant: &TenantId, run: RunId) -> Result<(), StoreError> {
        // One waiter is enough: the others would queue behind it, one slow answer of the store after the other.
        if self.run_locks.is_awaited(run) {
            return Ok(());
        }
        self.run_locks.alone(run, self.turns(tenant, run, None, false)).await.map(|_| ())
    }
}

/// Advances runs until `shutdown`, then finishes the turns in progress. `polls`: also polls for ready runs, because no
/// reconciler of this process does.
///
/// In lanes: while one waits for its commits, another acquires the next runs, so that the store is never idle.
pub(crate) async fn run(engine: Arc<Engine>, polls: bool, shutdown: CancellationToken) {
    let mut lanes = JoinSet::new();
    if polls {
        lanes.spawn(poll(engine.clone(), shutdown.clone()));
    }
    lanes.spawn(suspects::run(engine.clone(), shutdown.clone()));
    for _ in 0..engine.process.settings.engine_lanes.max(1) {
        lanes.spawn(run_lane(engine.clone(), shutdown.clone()));
    }
    while let Some(ended) = lanes.join_next().await {
        if let Err(error) = ended {
            error!(%error, "engine lane panicked");
        }
    }
}

async fn run_lane(engine: Arc<Engine>, shutdown: CancellationToken) {
    let woken = engine.process.wakeups.waiter(Signal::RunReady);
    let mut gathering = JoinSet::new();
    while !shutdown.is_cancelled() {
        if let Some(tenant) = engine.process.wakeups.ready.next() {
            let may_wait = gathering.len() < GATHERING_MAX;
            for early in advance_some(&engine, &tenant, may_wait).await {
                gathering.spawn(gather(engine.clone(), early, shutdown.clone()));
            }
            while gathering.try_join_next().is_some() {}
        } else {
            let _ = shutdown.run_until_cancelled(woken.notified()).await;
        }
    }
    while gathering.join_next().await.is_some() {}
}

/// Finds ready runs whose wake-up was lost, for all lanes.
async fn poll(engine: Arc<Engine>, shutdown: CancellationToken) {
    let woken = engine.process.wakeups.waiter(Signal::RunReady);
    while shutdown.run_until_cancelled(tokio::time::sleep(engine.process.settings.poll)).await.is_some() {
        match engine.process.call(FindDue { limit: engine.process.settings.take_max }).await {
            Ok(due) => {
                for tenant in due.ready {
                    engine.process.wakeups.ready.push(tenant);
                    woken.notify_one();
                }
            }
            Err(error) => warn!(%error, "could not find ready runs; retrying"),
        }
    }
}

/// Acquires a bounded number of the tenant's runs and makes a turn of each. A tenant with more goes to the end of the
/// queue: one tenant's storm does not delay the others. Returns the runs whose next turn is not due yet.
async fn advance_some(engine: &Arc<Engine>, tenant: &TenantId, may_wait: bool) -> Vec<Early> {
    let (request, limit) = (engine.lease_request(), engine.process.settings.take_max);
    let (holder, lease) = (engine.process.instance.clone(), request.lease);
    let acquire = AcquireReadyRuns { tenant: tenant.clone(), holder, lease, limit };
    match engine.process.call(acquire).await {
        Ok(acquired) => {
            if acquired.has_suspects {
                engine.suspects.met(tenant);
            }
            if acquired.runs.len() == limit {
                engine.process.wakeups.ready.push(tenant.clone());
            }
            let advance = |run| advance_to_the_end(engine.clone(), (run, request), may_wait);
            let mut turns: JoinSet<Option<Early>> = acquired.runs.into_iter().map(advance).collect();
            let mut not_due = Vec::new();
            while let Some(ended) = turns.join_next().await {
                match ended {
                    Ok(early) => not_due.extend(early),
                    // The lease of its run expires, so the store counts it.
                    Err(error) => error!(%tenant, %error, "turn panicked"),
                }
            }
            not_due
        }
        Err(error) => {
            warn!(%tenant, %error, "could not acquire runs; retrying at the next poll");
            Vec::new()
        }
    }
}

async fn advance_to_the_end(
    engine: Arc<Engine>,
    acquired: (AcquiredRun, LeaseRequest),
    may_wait: bool,
) -> Option<Early> {
    let (tenant, run) = (acquired.0.start.tenant.clone(), acquired.0.start.run);
    let turns = engine.turns(&tenant, run, Some(acquired), may_wait);
    engine.run_locks.alone(run, turns).await.unwrap_or_else(|error| {
        warn!(%tenant, %run, %error, "turn failed; the run stays ready");
        None
    })
}
