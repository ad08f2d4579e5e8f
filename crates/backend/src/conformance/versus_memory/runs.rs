//! Runs: started, acquired, committed, ended, read.

use std::time::Duration;

use interlock_model::admission::StartOutcome;
use interlock_model::history::{Event, EventKind};
use interlock_model::job::NewJob;
use interlock_model::run::{Ending, Quarantine, RunStatus};
use interlock_model::step::{StepRun, StepStatus};
use interlock_model::trace::TraceParent;
use interlock_model::{Fence, InstanceId, StepKey, TenantId};
use rand::RngExt as _;
use serde_json::json;

use super::super::scene::{approval, deploy, ending, idle, name, new_job, running};
use super::{Walk, sampled};
use crate::runs::{AcquiredRun, RunFilter};
use crate::suspects::SuspectOutcome;
use crate::verbs::{
    AcquireReadyRuns, AcquireRun, AcquireSuspect, Admit, BeginTry, Commit, DeleteRun, ExtendRunLease,
    FindDue, FireTimers, ListActiveRuns, ListRuns, ReadRun, ReadRunOwnership, ReadRunStatuses, ReadTimeline,
    ReadUsage, ReleaseRun, RequestCancel,
};

sampled!(Admit, 14, |walk| Some(walk.start()), |asked, answer, known| {
    if let StartOutcome::Queued { run, .. } = answer {
        let queued = (asked.request.tenant.clone(), *run);
        known.runs.push(queued.clone());
        known.queued.push(queued);
    }
    if let StartOutcome::Admitted { run, .. } = answer {
        let tenant = &asked.request.tenant;
        known.runs.push((tenant.clone(), *run));
        if let Some(turn) = asked.first_turn() {
            let jobs = turn.dispatched.iter().map(|job| (tenant.clone(), job.id.clone(), Fence::new(1)));
            known.jobs.extend(jobs);
            known.held.extend(turn.held.iter().map(|held| (tenant.clone(), held.job.id.clone())));
        }
    }
});

sampled!(
    AcquireReadyRuns,
    6,
    |walk| {
        let (tenant, holder) = (walk.tenant(), walk.instance());
        Some(AcquireReadyRuns { tenant, holder, lease: walk.millis(300..700), limit: walk.limit() })
    },
    |_, answer, known| known.acquired.extend(answer.runs.iter().cloned())
);

sampled!(
    AcquireRun,
    6,
    |walk| {
        let (tenant, run) = walk.run()?;
        Some(AcquireRun { tenant, run, holder: walk.instance(), lease: walk.millis(300..700) })
    },
    |_, answer, known| known.acquired.extend(answer.clone())
);

sampled!(
    AcquireSuspect,
    6,
    |walk| {
        let (tenant, holder) = (walk.tenant(), walk.instance());
        let lease = walk.millis(300..700);
        let tries_max = walk.random.random_range(1..4);
        Some(AcquireSuspect { tenant, holder, lease, tries_max, dead_letters_max: 20 })
    },
    |asked, answer, known| match answer {
        SuspectOutcome::Acquired(suspect) => known.acquired.push(suspect.run.clone()),
        SuspectOutcome::Quarantined(run) => {
            known.letters.push((asked.tenant.clone(), Quarantine::letter_id(*run)));
        }
        SuspectOutcome::Nothing => {}
    }
);

sampled!(
    Commit,
    18,
    |walk| {
        let acquired = walk.pick(|known| &known.acquired)?;
        Some(walk.turn(&acquired))
    },
    |asked, _, known| {
        let tenant = &asked.tenant;
        let jobs = asked.dispatched.iter().map(|job| (tenant.clone(), job.id.clone(), Fence::new(1)));
        known.jobs.extend(jobs);
        known.held.extend(asked.held.iter().map(|held| (tenant.clone(), held.job.id.clone())));
        known.children.extend(asked.children.started.iter().map(|child| (tenant.clone(), child.clone())));
        known.approvals.extend(asked.approvals_opened.iter().map(|open| (tenant.clone(), open.job.clone())));
    }
);

sampled!(BeginTry, 4, |walk| {
    let acquired = walk.pick(|known| &known.acquired)?;
    let (tenant, run, fence) = (acquired.start.tenant.clone(), acquired.start.run, acquired.fence);
    Some(BeginTry { tenant, run, fence, lease: walk.millis(1..900), number: walk.random.random_range(1..5) })
});

sampled!(ExtendRunLease, 2, |walk| {
    let acquired = walk.pick(|known| &known.acquired)?;
    let (tenant, run) = (acquired.start.tenant, acquired.start.run);
    Some(ExtendRunLease { tenant, run, fence: acquired.fence, lease: walk.millis(1..900) })
});

sampled!(ReleaseRun, 2, |walk| {
    let AcquiredRun { start, fence, .. } = walk.pick(|known| &known.acquired)?;
    Some(ReleaseRun { tenant: start.tenant, run: start.run, fence })
});

sampled!(RequestCancel, 2, |walk| {
    let (tenant, run) = walk.run()?;
    Some(RequestCancel { tenant, run, by: walk.person() })
});

sampled!(DeleteRun, 1, |walk| walk.run().map(|(tenant, run)| DeleteRun { tenant, run }));

sampled!(FireTimers, 2, |walk| {
    let ahead = if walk.flip(0.3) { walk.millis(0..3_000) } else { Duration::ZERO };
    Some(FireTimers { tenant: walk.tenant(), ahead, limit: walk.limit() })
});

sampled!(ReadRun, 2, |walk| walk.run().map(|(tenant, run)| ReadRun { tenant, run }));

sampled!(ReadRunOwnership, 2, |walk| walk.run().map(|(tenant, run)| ReadRunOwnership { tenant, run }));

sampled!(ReadRunStatuses, 2, |walk| {
    let (tenant, run) = walk.run()?;
    let runs = std::iter::once(run).chain(walk.run().map(|(_, other)| other)).collect();
    Some(ReadRunStatuses { tenant, runs })
});

sampled!(
    ListRuns,
    2,
    |walk| {
        let tenant = walk.tenant();
        let statuses = [RunStatus::Pending, RunStatus::Running, RunStatus::Failed];
        let status = walk.flip(0.3).then(|| walk.one_of(&statuses));
        let workflow = walk.flip(0.3).then(|| walk.workflow());
        let parent = walk.pick(|known| &known.runs).filter(|_| walk.flip(0.1)).map(|(_, run)| run);
        let page = walk.page(&format!("runs of {tenant}"));
        Some(ListRuns { tenant, filter: RunFilter { status, workflow, parent }, page })
    },
    |asked, answer, known| known.learn_page(format!("runs of {}", asked.tenant), answer)
);

sampled!(ListActiveRuns, 1, |walk| Some(ListActiveRuns { tenant: walk.tenant(), limit: walk.limit() }));

sampled!(ReadUsage, 1, |walk| Some(ReadUsage { tenant: walk.tenant() }));

sampled!(FindDue, 3, |walk| Some(FindDue { limit: walk.limit() }));

sampled!(ReadTimeline, 2, |walk| {
    let (tenant, run) = walk.run()?;
    Some(ReadTimeline { tenant, run, after: walk.random.random_range(0..4), limit: walk.limit() })
});

impl Walk {
    pub(super) fn instance(&mut self) -> InstanceId {
        name(self.one_of(&["engine-1", "engine-2"]))
    }

    pub(super) fn trace(&mut self) -> Option<TraceParent> {
        let (trace, span) = (self.random.random_range(1..u128::MAX), self.random.random_range(1..u64::MAX));
        let is_sampled = self.flip(0.5);
        self.flip(0.3).then_some(TraceParent { trace, span, is_sampled })
    }

    /// What a turn might write over a step, whatever it was before.
    pub(super) fn step_run(&mut self) -> (StepKey, StepRun) {
        let now = self.now();
        let statuses = [StepStatus::Succeeded, StepStatus::Failed, StepStatus::Skipped, StepStatus::Running];
        let step = StepRun {
            status: self.one_of(&statuses),
            attempts: self.random.random_range(0..4),
            failures: self.random.random_range(0..2),
            losses: self.random.random_range(0..2),
            started_at: self.flip(0.5).then_some(now),
            completed_at: self.flip(0.5).then_some(now),
            deadline_at: self.flip(0.2).then_some(now + Duration::from_secs(1)),
            total_deadline_at: self.flip(0.2).then_some(now + Duration::from_secs(3)),
            wake_at: self.flip(0.2).then_some(now + Duration::from_secs(2)),
            item: self.flip(0.2).then(|| json!({"n": 1.50})),
            output: self.flip(0.5).then(|| json!([{}, "\u{1f512}"])),
            ..StepRun::default()
        };
        (StepKey::whole(&name(self.one_of(&["build", "gate"]))), step)
    }

    /// A turn of the engine, which may come late.
    fn turn(&mut self, acquired: &AcquiredRun) -> Commit {
        let (tenant, run) = (&acquired.start.tenant, acquired.start.run);
        let is_live = !acquired.head.status.is_final();
        let mut turn = match self.random.random_range(0..4) {
            0 if is_live => {
                ending(acquired, self.one_of(&[Ending::Failed, Ending::Succeeded, Ending::Cancelled]))
            }
            2.. if is_live => running(acquired),
            _ => idle(acquired),
        };
        for job in &mut turn.dispatched {
            *job = self.new_job(acquired);
        }
        if self.flip(0.3) {
            turn.held = self.held(&mut turn.dispatched);
        }
        if is_live && self.flip(0.3) {
            turn.approvals_opened = vec![approval(run, acquired.now)];
        }
        if is_live && self.flip(0.3) {
            turn.head.due_at = Some(acquired.now + self.millis(0..900));
        }
        if self.flip(0.2) {
            turn.steps = vec![self.step_run()];
            turn.head.output = Some(json!({"deep": [1, 2.5]}));
        }
        if self.flip(0.3) {
            turn.events = vec![Event::new(acquired.now, EventKind::StepWaiting).with_status("waiting")];
        }
        turn.continues = is_live && acquired.fence.number().is_multiple_of(5);
        if self.flip(0.03) {
            turn.version += 1;
        }
        self.end_something(tenant, &mut turn);
        turn.children = self.children_of(acquired, &turn);
        turn.waits = self.waits(&turn.head);
        turn
    }

    fn new_job(&mut self, acquired: &AcquiredRun) -> NewJob {
        let in_time = acquired.now + self.millis(0..3_000);
        // Every dispatch is an attempt of its own.
        let attempt =
            u32::try_from(self.known.jobs.len() + self.known.held.len()).expect("a walk is short") + 2;
        NewJob {
            topic: self.topic(),
            deadline_at: self.flip(0.5).then_some(in_time),
            timeout: self.flip(0.4).then(|| self.millis(1..3_000)),
            queue_until: self.flip(0.3).then_some(acquired.now + self.millis(0..3_000)),
            meta: self.meta(),
            budget: self.step_budget(),
            trace: self.trace(),
            ..new_job(acquired.start.run, attempt)
        }
    }

    /// Revokes, withdraws and gives up some of what the run has.
    fn end_something(&mut self, tenant: &TenantId, turn: &mut Commit) {
        let jobs = self.known.jobs.iter().rev();
        let last = jobs
            .filter(|(of, job, _)| of == tenant && job.run == turn.run)
            .map(|(_, job, _)| job.clone())
            .next();
        if let Some(job) = &last
            && self.flip(0.1)
        {
            turn.buried = vec![self.dead_letter(job)];
        }
        turn.dead_letters_max = self.dead_letters_max();
        turn.revoked = last.into_iter().collect();
        let mut approvals = self.known.approvals.iter();
        let asked =
            approvals.find(|(of, job)| of == tenant && job.run == turn.run).map(|(_, job)| job.clone());
        // What a turn both opens and closes is not in its commit.
        let asked = asked.filter(|job| turn.approvals_opened.iter().all(|opened| opened.job != *job));
        turn.approvals_withdrawn = asked.filter(|_| self.flip(0.1)).into_iter().collect();
    }

    pub(super) fn workflow(&mut self) -> interlock_model::WorkflowId {
        if self.flip(0.9) { deploy() } else { name("rollback") }
    }
}
