//! What the log tells of runs, jobs and locks, always under the same names: `tenant`, `run`, `job`, `fence`.
//!
//! What happens all the time is told at `debug`, what somebody may want to look into at `info` or above.

use interlock_backend::StoreError;
use interlock_backend::jobs::Claimed;
use interlock_backend::locks::ForcedRelease;
use interlock_backend::runs::Commit;
use interlock_model::admission::{Admission, StartRun};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::job::NewJob;
use interlock_model::lock::{Grant, LockName};
use interlock_model::run::RunStatus;
use interlock_model::{Fence, JobId, RunId, TenantId, Topic};
use tracing::{debug, info, warn};

use crate::admission::StartError;

pub(crate) fn decided(start: &StartRun, decided: &Admission) {
    let StartRun { tenant, workflow, .. } = start;
    match decided {
        Admission::Admitted { run, usage } => {
            debug!(%tenant, %run, %workflow, active = usage.runs_active, limit = usage.runs_max, "a run was admitted");
        }
        Admission::Replayed { run, .. } => debug!(%tenant, %run, %workflow, "a start was replayed"),
        Admission::KeyReused { run, .. } => {
            debug!(%tenant, %run, %workflow, "a start was refused: its key started another");
        }
        Admission::AtCapacity { usage, .. } => {
            debug!(%tenant, run = %start.run, %workflow, limit = usage.runs_max, "a start was refused: the cap is reached");
        }
        Admission::DefinitionChanged { .. } => {}
    }
}

pub(crate) fn undecided(start: &StartRun, error: &StartError) {
    let StartRun { tenant, run, workflow, .. } = start;
    debug!(%tenant, %run, %workflow, %error, "a start was refused");
}

pub(crate) fn dispatched(tenant: &TenantId, jobs: &[NewJob]) {
    for job in jobs {
        Dispatched::of(job).told(tenant);
    }
}

/// A job without its input, which may be large.
pub(crate) struct Dispatched {
    pub(crate) id: JobId,
    topic: Topic,
}

impl Dispatched {
    fn of(job: &NewJob) -> Self {
        Self { id: job.id.clone(), topic: job.topic.clone() }
    }

    fn told(&self, tenant: &TenantId) {
        let Self { id, topic } = self;
        debug!(%tenant, run = %id.run, job = %id, %topic, "a job was dispatched");
    }
}

pub(crate) fn claimed(tenant: &TenantId, claimed: &[Claimed]) {
    for Claimed { job, lease, .. } in claimed {
        let (job, worker, fence) = (&job.id, &lease.worker, lease.fence.number());
        debug!(%tenant, run = %job.run, %job, fence, %worker, "a job was claimed");
    }
}

pub(crate) fn lost(tenant: &TenantId, jobs: &[JobId]) {
    for job in jobs {
        info!(%tenant, run = %job.run, %job, "a lease ran out; the job goes to another worker");
    }
}

pub(crate) fn recorded(tenant: &TenantId, job: &JobId, fence: Fence) {
    debug!(%tenant, run = %job.run, %job, fence = fence.number(), "a result was recorded");
}

/// A write about a job came to nothing. Only a stale one is worth a line: whoever asked is told of the rest.
pub(crate) fn refused(tenant: &TenantId, job: &JobId, error: &StoreError) {
    if let StoreError::Fenced { held, current } = error {
        let (fence, current) = (held.number(), current.number());
        info!(%tenant, run = %job.run, %job, fence, current, "a stale write was refused");
    }
}

pub(crate) fn buried(tenant: &TenantId, letter: &DeadLetter) {
    let DeadLetter { job, attempts, reason, .. } = letter;
    warn!(%tenant, run = %job.run, %job, attempts, reason, "a job was given up on: it is a dead letter");
}

/// A run has come to its end.
pub(crate) fn ended(tenant: &TenantId, run: RunId, fence: Option<Fence>, status: RunStatus) {
    if status.is_final() {
        debug!(%tenant, %run, fence = fence.map(Fence::number), status = status.name(), "a run has ended");
    }
}

/// What a turn is about to write, to be told once it is written.
pub(crate) struct Turn {
    pub(crate) tenant: TenantId,
    pub(crate) run: RunId,
    fence: Fence,
    status: RunStatus,
    pub(crate) dispatched: Vec<Dispatched>,
    buried: Vec<DeadLetter>,
}

impl Turn {
    pub(crate) fn of(commit: &Commit) -> Self {
        Self {
            tenant: commit.tenant.clone(),
            run: commit.run,
            fence: commit.fence,
            status: commit.head.status,
            dispatched: commit.dispatched.iter().map(Dispatched::of).collect(),
            buried: commit.buried.clone(),
        }
    }

    pub(crate) fn committed(&self) {
        let Self { tenant, run, fence, status, dispatched: jobs, buried: letters } = self;
        for job in jobs {
            job.told(tenant);
        }
        for letter in letters {
            buried(tenant, letter);
        }
        ended(tenant, *run, Some(*fence), *status);
    }
}

pub(crate) fn lock_granted(lock: &LockName, grant: &Grant) {
    let (lock, fence, owner) = (Told(lock), grant.fence.number(), &grant.owner);
    debug!(tenant = lock.tenant(), lock = %lock.0.resource(), fence, %owner, "a lock was granted");
}

pub(crate) fn lock_forced(forced: &ForcedRelease) {
    let ForcedRelease { lock, by, reason, .. } = forced;
    let lock = Told(lock);
    info!(tenant = lock.tenant(), lock = %lock.0.resource(), by, reason, "a lock was taken from its holder");
}

/// A write about a lock came to nothing.
pub(crate) fn lock_refused(lock: &LockName, error: &StoreError) {
    if let StoreError::Fenced { held, current } = error {
        let (lock, fence, current) = (Told(lock), held.number(), current.number());
        info!(tenant = lock.tenant(), lock = %lock.0.resource(), fence, current, "a stale write was refused");
    }
}

struct Told<'a>(&'a LockName);

impl Told<'_> {
    fn tenant(&self) -> Option<&str> {
        match self.0 {
            LockName::Of(tenant, _) | LockName::Admission(tenant) => Some(tenant.as_str()),
            LockName::Stage(_) => None,
        }
    }
}
