//! Sees every store call with its answer and every row that is written, and says at once when a promise is broken.
//!
//! It judges by a model of its own, in plain maps: a bug of the store must not be able to hide in the judge.

mod admission;
mod approvals;
mod budget_queues;
mod budgets;
mod children;
mod debounce;
mod deliveries;
mod end;
mod events;
mod jobs;
mod judged;
mod keyed_events;
mod limits;
mod locks;
mod reservations;
mod rows;
mod runs;
mod shares;
mod step_permits;
mod system_limits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::clock::RuntimeClock;
use interlock_model::child::ParentLink;
use interlock_model::limit::Limits;
use interlock_model::{Clock, EventId, Fence, JobId, RunId, TenantId, Timestamp, WorkflowId};
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::{Bug, Failure, Invariant, Summary};

pub(crate) use end::OPEN;
pub(crate) use judged::Judged;
pub(crate) use rows::Write;

/// The checker, as everybody holds it.
#[derive(Clone)]
pub(crate) struct Shared {
    checker: Arc<Mutex<Checker>>,
    pub(crate) failed: CancellationToken,
}

impl Shared {
    pub(crate) fn new(checker: Checker) -> Self {
        let failed = checker.failed.clone();
        Self { checker: Arc::new(Mutex::new(checker)), failed }
    }

    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Checker) -> R) -> R {
        look(&mut self.checker.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Checker {
    seed: u64,
    planted: Option<Bug>,
    clock: RuntimeClock,
    started: Timestamp,
    pub(crate) log: Log,
    pub(crate) counts: Summary,
    failure: Option<Failure>,
    failed: CancellationToken,
    tables: rows::Rows,
    tenants: BTreeMap<TenantId, Tenant>,
    system: Limits,
    system_limits: system_limits::SystemLimits,
    runs: BTreeMap<RunId, runs::Run>,
    jobs: BTreeMap<JobId, jobs::Job>,
    waiting: BTreeMap<JobId, deliveries::Waiting>,
    approvals: BTreeMap<JobId, approvals::Approval>,
    locks: locks::Locks,
    budgets: budgets::Budgets,
    budget_queues: budget_queues::BudgetQueues,
    /// Children that steps wait for, by the calls.
    wanted: BTreeMap<RunId, ParentLink>,
    /// Events that were posted, by the answers.
    sent_events: BTreeSet<(RunId, EventId)>,
    keyed_events: BTreeSet<(TenantId, EventId)>,
}

/// A tenant, as the calls and answers say that it must be.
#[derive(Default)]
struct Tenant {
    limits: Limits,
    live: BTreeSet<RunId>,
    /// Runs that wait for their slots.
    queued: BTreeSet<RunId>,
    /// Children that have not ended.
    children: BTreeSet<RunId>,
    /// The largest fence that anybody was given.
    fence: Option<Fence>,
    keys: BTreeMap<(WorkflowId, String), admission::Key>,
    /// The current version of each workflow that is not deleted.
    versions: BTreeMap<WorkflowId, u32>,
}

impl Tenant {
    fn ended(&mut self, run: RunId) {
        self.live.remove(&run);
        self.queued.remove(&run);
        self.children.remove(&run);
    }
}

impl Checker {
    pub(crate) fn new(seed: u64, planted: Option<Bug>, clock: RuntimeClock, log: Log) -> Self {
        Self {
            seed,
            planted,
            started: clock.now(),
            clock,
            log,
            counts: Summary::default(),
            failure: None,
            failed: CancellationToken::new(),
            tables: rows::Rows::default(),
            tenants: BTreeMap::new(),
            system: Limits::default(),
            system_limits: system_limits::SystemLimits::default(),
            runs: BTreeMap::new(),
            jobs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            approvals: BTreeMap::new(),
            locks: locks::Locks::default(),
            budgets: budgets::Budgets::default(),
            budget_queues: budget_queues::BudgetQueues::default(),
            wanted: BTreeMap::new(),
            sent_events: BTreeSet::new(),
            keyed_events: BTreeSet::new(),
        }
    }

    /// Simulated time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(self.started)
    }

    /// Remembers the first broken promise; what comes after it is only its consequence.
    pub(crate) fn violate(&mut self, invariant: Invariant, what: String) {
        let at = self.elapsed();
        self.log.note(at, ("!!", "VIOLATION"), || what.clone());
        let (seed, planted) = (self.seed, self.planted);
        self.failure.get_or_insert(Failure { seed, planted, invariant, what, at });
        self.failed.cancel();
    }

    fn require(&mut self, holds: bool, invariant: Invariant, what: impl FnOnce() -> String) {
        if !holds {
            self.violate(invariant, what());
        }
    }

    /// One store call, with its answer.
    pub(crate) fn called<R: std::fmt::Debug>(
        &mut self,
        (who, verb): (&str, &str),
        answer: &Result<R, StoreError>,
    ) {
        self.counts.calls += 1;
        let at = self.elapsed();
        self.log.note(at, (who, verb), || match answer {
            Ok(answer) => shortened(format!("-> {answer:?}")),
            Err(error) => format!("-> {error}"),
        });
        if let Err(error) = answer
            && !error.is_refusal()
        {
            self.violate(Invariant::NothingBreaks, format!("{verb} failed: {error}"));
        }
    }

    /// Something that an actor did or saw.
    pub(crate) fn tell(&mut self, who: &str, what: &str) {
        let at = self.elapsed();
        self.log.note(at, (who, what), String::new);
    }

    pub(crate) fn limits_set(&mut self, tenant: Option<&TenantId>, limits: Limits) {
        let Some(id) = tenant else {
            self.system = limits;
            return;
        };
        let model = self.tenants.entry(id.clone()).or_default();
        model.limits = limits;
        let (live, max) = (model.live.len(), model.limits.under(self.system).runs_max as usize);
        self.counts.limits_lowered_below_usage += u64::from(live > max);
    }

    pub(crate) fn workflow_saved(&mut self, tenant: &TenantId, id: &WorkflowId, version: Option<u32>) {
        let versions = &mut self.tenants.entry(tenant.clone()).or_default().versions;
        match version {
            Some(version) => drop(versions.insert(id.clone(), version)),
            None => drop(versions.remove(id)),
        }
    }

    /// A fence was given out: it must be larger than every one before.
    fn fence_given(&mut self, id: &TenantId, fence: Fence) {
        let tenant = self.tenants.entry(id.clone()).or_default();
        let last = tenant.fence.replace(fence);
        let grows = last.is_none_or(|last| last < fence);
        self.require(grows, Invariant::FencesGrow, || {
            format!("fence {fence} of tenant {id} was given out after {}", last.unwrap_or(Fence::NONE))
        });
    }
}

/// A line is for reading.
fn shortened(text: String) -> String {
    const CHARS_MAX: usize = 400;
    match text.char_indices().nth(CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
