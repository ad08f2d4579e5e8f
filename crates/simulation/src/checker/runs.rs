//! Runs: acquired by one instance at a time, written by their holder, ended once.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::runs::{AcquiredRun, Commit, Committed};
use interlock_backend::verbs::Admit;
use interlock_model::admission::FirstTurn;
use interlock_model::child::ChildEffects;
use interlock_model::history::EventKind;
use interlock_model::run::RunStatus;
use interlock_model::{Clock, Fence, JobId, RunId, TenantId, Timestamp};

use super::jobs::JobTimes;
use super::{Checker, jobs};
use crate::Invariant;

/// A run, as the calls and answers say that it must be.
pub(super) struct Run {
    pub tenant: TenantId,
    pub is_deleted: bool,
    ended: bool,
    version: u64,
    holder: Option<(Fence, Timestamp)>,
}

impl Run {
    pub(super) fn admitted(tenant: TenantId) -> Self {
        Self { tenant, is_deleted: false, ended: false, version: 0, holder: None }
    }
}

/// A commit, as far as its answer depends on it.
pub(super) struct Turn {
    tenant: TenantId,
    run: RunId,
    fence: Fence,
    version: u64,
    status: RunStatus,
    dispatched: Vec<(JobId, JobTimes)>,
    revoked: Vec<JobId>,
    opened: Vec<JobId>,
    withdrawn: Vec<JobId>,
    events: Vec<EventKind>,
    children: ChildEffects,
}

impl Turn {
    pub(super) fn first(admit: &Admit, turn: &FirstTurn) -> Self {
        Self {
            tenant: admit.request.tenant.clone(),
            run: admit.request.run,
            fence: Fence::NONE,
            version: 0,
            status: turn.head.status,
            dispatched: turn
                .dispatched
                .iter()
                .chain(turn.held.iter().map(|held| &held.job))
                .map(|job| (job.id.clone(), JobTimes::of(job)))
                .collect(),
            revoked: Vec::new(),
            opened: turn.approvals_opened.iter().map(|approval| approval.job.clone()).collect(),
            withdrawn: Vec::new(),
            events: turn.events.iter().map(|event| event.kind).collect(),
            children: ChildEffects::default(),
        }
    }

    pub(super) fn of(commit: &Commit) -> Self {
        Self {
            tenant: commit.tenant.clone(),
            run: commit.run,
            fence: commit.fence,
            version: commit.version,
            status: commit.head.status,
            dispatched: commit
                .dispatched
                .iter()
                .chain(commit.held.iter().map(|held| &held.job))
                .map(|job| (job.id.clone(), JobTimes::of(job)))
                .collect(),
            revoked: commit.revoked.clone(),
            opened: commit.approvals_opened.iter().map(|approval| approval.job.clone()).collect(),
            withdrawn: commit.approvals_withdrawn.clone(),
            events: commit.events.iter().map(|event| event.kind).collect(),
            children: commit.children.clone(),
        }
    }
}

impl Checker {
    pub(super) fn acquired<'a>(&mut self, taken: impl IntoIterator<Item = &'a AcquiredRun>, lease: Duration) {
        let now = self.clock.now();
        for taken in taken {
            let (id, run) = (&taken.start.tenant, taken.start.run);
            self.fence_given(id, taken.fence);
            let Some(model) = self.runs.get_mut(&run).filter(|run| !run.is_deleted) else {
                self.violate(
                    Invariant::AnswersAreTrue,
                    format!("run {run} of {id} is not there and was taken"),
                );
                continue;
            };
            let before = model.holder.replace((taken.fence, now + lease));
            let version = model.version;
            self.counts.runs_taken_over += u64::from(before.is_some());
            self.require(before.is_none_or(|(_, until)| until <= now), Invariant::HolderIsLeftAlone, || {
                format!("run {run} of tenant {id} was taken from a holder whose lease had not ended")
            });
            self.require(version == taken.head.version, Invariant::AnswersAreTrue, || {
                format!(
                    "run {run} of tenant {id} was taken at version {} and is at {version}",
                    taken.head.version
                )
            });
        }
    }

    /// No turn fails of itself here, so none is to blame for the faults around it.
    pub(super) fn quarantined(&mut self, tenant: &TenantId, run: RunId) {
        self.violate(Invariant::EveryRunEnds, format!("run {run} of tenant {tenant} was quarantined"));
    }

    /// A holder asked to keep its run for so long from now.
    pub(super) fn run_lease_extended(&mut self, (run, fence): (RunId, Fence), lease: Duration) {
        let until = self.clock.now() + lease;
        if let Some(run) = self.runs.get_mut(&run) {
            run.holder = run.holder.map(|held| if held.0 == fence { (fence, until) } else { held });
        }
    }

    pub(super) fn is_held(&self, run: RunId) -> bool {
        let now = self.clock.now();
        self.runs.get(&run).is_some_and(|run| run.holder.is_some_and(|(_, until)| now < until))
    }

    pub(super) fn run_released(&mut self, run: RunId, fence: Fence) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.holder = run.holder.filter(|(held, _)| *held != fence);
        }
    }

    pub(super) fn committed(&mut self, turn: &Turn, answer: &Result<Committed, StoreError>) {
        let (id, run) = (&turn.tenant, turn.run);
        let model = self.runs.get(&run).filter(|run| !run.is_deleted);
        let is_holder = model.is_some_and(|run| {
            run.holder.is_some_and(|(fence, _)| fence == turn.fence) && run.version == turn.version
        });
        if answer.is_ok() {
            self.require(is_holder, Invariant::NoStaleWrite, || {
                format!(
                    "a commit of run {run} of tenant {id} under the stale fence {} was accepted",
                    turn.fence
                )
            });
            return self.write(turn);
        }
        self.counts.stale_commits_refused += 1;
        self.require(!is_holder, Invariant::HolderIsLeftAlone, || {
            format!("the holder of run {run} of tenant {id} was refused under fence {}", turn.fence)
        });
    }

    fn write(&mut self, turn: &Turn) {
        if let Some(run) = self.runs.get_mut(&turn.run) {
            run.version += 1;
            run.holder = None;
        }
        self.carry_out(turn);
    }

    /// What a turn says comes true.
    pub(super) fn carry_out(&mut self, turn: &Turn) {
        let Some(run) = self.runs.get_mut(&turn.run) else { return };
        let had_ended = std::mem::replace(&mut run.ended, turn.status.is_final());
        self.require(!had_ended || turn.dispatched.is_empty(), Invariant::FinalStays, || {
            format!("run {} of tenant {} has ended and dispatched more", turn.run, turn.tenant)
        });
        if turn.status.is_final() && !had_ended {
            self.tenants.entry(turn.tenant.clone()).or_default().ended(turn.run);
            self.count_ending(turn.status);
        }
        for (job, times) in &turn.dispatched {
            let before = self.jobs.insert(job.clone(), jobs::Job::Queued(*times));
            self.require(before.is_none(), Invariant::ReportedOnce, || format!("{job} was dispatched twice"));
        }
        self.children_changed((&turn.tenant, turn.run), &turn.children);
        for job in &turn.revoked {
            self.end_job(job, None);
        }
        for job in &turn.opened {
            self.approval_opened(job);
        }
        for job in &turn.withdrawn {
            self.approval_withdrawn(job);
        }
        for kind in &turn.events {
            self.count_event(*kind);
        }
    }

    /// A run was deleted on request: of all that it was, only its key stays.
    pub(super) fn deleted(&mut self, id: &TenantId, run: RunId) {
        let Some(model) = self.runs.get_mut(&run) else { return };
        let was_deleted = std::mem::replace(&mut model.is_deleted, true);
        model.holder = None;
        let counts = &mut self.counts;
        *(if model.ended {
            &mut counts.deletions_of_ended_runs
        } else {
            &mut counts.deletions_of_live_runs
        }) += 1;
        self.tenants.entry(id.clone()).or_default().ended(run);
        self.wanted.retain(|child, parent| *child != run && parent.run != run);
        self.jobs.retain(|job, _| job.run != run);
        self.waiting.retain(|job, _| job.run != run);
        self.approvals.retain(|job, _| job.run != run);
        self.require(!was_deleted, Invariant::AnswersAreTrue, || {
            format!("run {run} of {id} was deleted twice")
        });
    }

    /// Runs that exist, for a client that acts on one.
    pub(crate) fn known_runs(&self) -> Vec<(TenantId, RunId)> {
        let there = self.runs.iter().filter(|(_, run)| !run.is_deleted);
        there.map(|(id, run)| (run.tenant.clone(), *id)).collect()
    }

    fn count_ending(&mut self, status: RunStatus) {
        match status {
            RunStatus::Succeeded => self.counts.runs_succeeded += 1,
            RunStatus::Failed => self.counts.runs_failed += 1,
            RunStatus::Denied => self.counts.runs_denied += 1,
            RunStatus::Cancelled => self.counts.runs_cancelled += 1,
            RunStatus::TimedOut => self.counts.runs_timed_out += 1,
            RunStatus::Queued | RunStatus::Pending | RunStatus::Running | RunStatus::Waiting => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most events are not counted")]
    fn count_event(&mut self, kind: EventKind) {
        match kind {
            EventKind::StepRetryScheduled => self.counts.retries += 1,
            EventKind::StepTimedOut => self.counts.steps_timed_out += 1,
            EventKind::StepErrorRedirect => self.counts.errors_redirected += 1,
            _ => {}
        }
    }
}
