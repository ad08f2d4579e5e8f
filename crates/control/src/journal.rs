//! Log events of runs, jobs and locks, always with the same fields: `tenant`, `run`, `job`, `fence`.
//!
//! What happens all the time is logged at `debug`, what an operator may want to look into at `info` or above.

use std::fmt::Display;

use interlock_backend::StoreError;
use interlock_backend::budgets::Adjustment;
use interlock_backend::jobs::Claimed;
use interlock_backend::locks::ForceReleaseLock;
use interlock_backend::runs::Commit;
use interlock_model::admission::{RunRequest, StartOutcome};
use interlock_model::budget::{Permit, Warning};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::lock::{Grant, LockName, StageLock};
use interlock_model::run::RunStatus;
use interlock_model::{BudgetName, Fence, JobId, RunId, TenantId, Topic};
use tracing::{debug, info, warn};

pub(crate) fn decided(request: &RunRequest, decided: &StartOutcome) {
    let RunRequest { tenant, workflow, .. } = request;
    match decided {
        StartOutcome::Admitted { run, usage, .. } => {
            debug!(%tenant, %run, %workflow, active = usage.runs_active, limit = usage.runs_max, "run admitted");
        }
        StartOutcome::Replayed { run, .. } => debug!(%tenant, %run, %workflow, "start replayed"),
        StartOutcome::KeyReused { run, .. } => {
            debug!(%tenant, %run, %workflow, "start refused: idempotency key reused");
        }
        StartOutcome::AtCapacity { usage, .. } => {
            debug!(%tenant, run = %request.run, %workflow, limit = usage.runs_max, "start refused: cap reached");
        }
        StartOutcome::Queued { run, blocked, .. } => {
            debug!(%tenant, %run, %workflow, limit = %blocked.limit, group = %blocked.group, "run queued");
        }
        StartOutcome::Joined { run, blocked, .. } => {
            debug!(%tenant, %run, %workflow, limit = %blocked.limit, group = %blocked.group, "start joined");
        }
        StartOutcome::LimitReached { blocked, .. } => {
            debug!(%tenant, %workflow, limit = %blocked.limit, group = %blocked.group, "start refused: limit reached");
        }
        StartOutcome::QueueFull { blocked, .. } => {
            debug!(%tenant, %workflow, limit = %blocked.limit, group = %blocked.group, "start refused: queue full");
        }
        StartOutcome::DefinitionChanged { .. } | StartOutcome::LimitsChanged { .. } => {}
    }
}

pub(crate) fn undecided(request: &RunRequest, error: &dyn Display) {
    let RunRequest { tenant, run, workflow, .. } = request;
    debug!(%tenant, %run, %workflow, %error, "start refused");
}

pub(crate) fn budget_warned(tenant: &TenantId, budget: &BudgetName, warning: &Warning) {
    let Warning { percent, used, group } = warning;
    warn!(%tenant, %budget, percent, %used, %group, "budget reached a threshold");
}

pub(crate) fn overdrawn(tenant: &TenantId, budget: &BudgetName, permit: &Permit) {
    let (overdraft, settled) = (permit.overdraft(), permit.settled);
    info!(%tenant, %budget, permit = %permit.id, %settled, %overdraft, "more was settled than was reserved");
}

pub(crate) fn permits_expired(tenant: &TenantId, permits: usize) {
    info!(%tenant, permits, "permits expired unsettled");
}

pub(crate) fn adjusted(tenant: &TenantId, budget: &BudgetName, adjustment: &Adjustment) {
    let Adjustment { by, delta, reason, .. } = adjustment;
    warn!(%tenant, %budget, by, %delta, reason, "budget adjusted");
}

pub(crate) fn dispatched(tenant: &TenantId, job: &JobId, topic: &Topic) {
    debug!(%tenant, run = %job.run, %job, %topic, "job dispatched");
}

pub(crate) fn claimed(tenant: &TenantId, claimed: &[Claimed]) {
    for Claimed { job, lease, .. } in claimed {
        let (job, worker, fence) = (&job.id, &lease.worker, lease.fence.number());
        debug!(%tenant, run = %job.run, %job, fence, %worker, "job claimed");
    }
}

pub(crate) fn expired(tenant: &TenantId, jobs: &[JobId]) {
    for job in jobs {
        info!(%tenant, run = %job.run, %job, "lease or timeout expired; the job has ended");
    }
}

pub(crate) fn quarantined(tenant: &TenantId, run: RunId, tries: u32) {
    warn!(
        %tenant, %run, tries,
        "run quarantined: its turns were abandoned. Retry it with `interlock dlq retry`, or cancel or delete it"
    );
}

pub(crate) fn recorded(tenant: &TenantId, job: &JobId, fence: Fence) {
    debug!(%tenant, run = %job.run, %job, fence = fence.number(), "result recorded");
}

/// The store refused a write about a job. Only a stale one is logged: the caller gets the other errors.
pub(crate) fn refused(tenant: &TenantId, job: &JobId, error: &StoreError) {
    if let StoreError::Fenced { held, current } = error {
        let (fence, current) = (held.number(), current.number());
        info!(%tenant, run = %job.run, %job, fence, current, "stale write refused");
    }
}

/// The store refused to commit a turn. Returns whether it was stale.
pub(crate) fn commit_refused(tenant: &TenantId, run: RunId, error: &StoreError) -> bool {
    let StoreError::Fenced { held, current } = error else { return false };
    let (fence, current) = (held.number(), current.number());
    info!(%tenant, %run, fence, current, "stale commit refused");
    true
}

/// The store refused what a loop wrote. Returns whether it was stale.
pub(crate) fn loop_refused(stage: StageLock, error: &StoreError) -> bool {
    let StoreError::Fenced { held, current } = error else { return false };
    let (fence, current) = (held.number(), current.number());
    info!(stage = stage.key(), fence, current, "stale write of a loop refused");
    true
}

pub(crate) fn buried(tenant: &TenantId, letter: &DeadLetter) {
    let DeadLetter { job, attempts, reason, .. } = letter;
    warn!(%tenant, run = %job.run, %job, attempts, reason, "job became a dead letter");
}

pub(crate) fn ended(tenant: &TenantId, run: RunId, fence: Option<Fence>, status: RunStatus) {
    if status.is_final() {
        debug!(%tenant, %run, fence = fence.map(Fence::number), status = status.name(), "run ended");
    }
}

/// What a turn is about to write, logged and announced once it is written.
pub(crate) struct TurnLog {
    pub(crate) tenant: TenantId,
    pub(crate) run: RunId,
    fence: Fence,
    pub(crate) status: RunStatus,
    /// Without the inputs, which may be large.
    pub(crate) dispatched: Vec<(JobId, Topic)>,
    pub(crate) revoked: Vec<JobId>,
    pub(crate) has_held: bool,
    /// Children are to be started.
    pub(crate) wants_children: bool,
    /// Other runs have something in their inboxes: a parent, or children that are cancelled.
    pub(crate) has_posted: bool,
    buried: Vec<DeadLetter>,
}

impl TurnLog {
    pub(crate) fn of(commit: &Commit) -> Self {
        Self {
            tenant: commit.tenant.clone(),
            run: commit.run,
            fence: commit.fence,
            status: commit.head.status,
            dispatched: commit.dispatched.iter().map(|job| (job.id.clone(), job.topic.clone())).collect(),
            revoked: commit.revoked.clone(),
            has_held: !commit.held.is_empty(),
            wants_children: !commit.children.started.is_empty(),
            has_posted: commit.children.report.is_some() || !commit.children.cancelled.is_empty(),
            buried: commit.buried.clone(),
        }
    }

    pub(crate) fn committed(&self) {
        for (job, topic) in &self.dispatched {
            dispatched(&self.tenant, job, topic);
        }
        for letter in &self.buried {
            buried(&self.tenant, letter);
        }
        ended(&self.tenant, self.run, Some(self.fence), self.status);
    }
}

pub(crate) fn lock_granted(lock: &LockName, grant: &Grant) {
    let (fence, owner) = (grant.fence.number(), &grant.owner);
    debug!(tenant = tenant_of(lock), lock = %lock.resource(), fence, %owner, "lock granted");
}

pub(crate) fn lock_forced(forced: &ForceReleaseLock) {
    let ForceReleaseLock { lock, by, reason, .. } = forced;
    info!(tenant = tenant_of(lock), lock = %lock.resource(), by, reason, "lock force-released");
}

/// The store refused a write about a lock.
pub(crate) fn lock_refused(lock: &LockName, error: &StoreError) {
    if let StoreError::Fenced { held, current } = error {
        let (fence, current) = (held.number(), current.number());
        info!(tenant = tenant_of(lock), lock = %lock.resource(), fence, current, "stale write refused");
    }
}

fn tenant_of(lock: &LockName) -> Option<&str> {
    match lock {
        LockName::Of(tenant, _) | LockName::Admission(tenant) => Some(tenant.as_str()),
        LockName::Stage(_) => None,
    }
}
