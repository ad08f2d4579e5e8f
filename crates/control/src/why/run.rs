//! Why a run does not advance: its lock, and each of its waiting steps.

use std::collections::BTreeMap;

use interlock_backend::StoreError;
use interlock_backend::runs::{RunHolder, RunOwnership};
use interlock_backend::verbs::{ReadJob, ReadRun, ReadRunOwnership};
use interlock_model::contention::RunStrategy;
use interlock_model::event::AwaitedEvent;
use interlock_model::job::JobOutcome;
use interlock_model::run::{InboxEvent, QUARANTINE_REASON, Quarantine, Run, RunStatus, SUSPECT_FROM};
use interlock_model::step::{StepRun, StepStatus};
use interlock_model::why::{Cause, CauseCode, Holder};
use interlock_model::workflow::{StepKind, Workflow};
use interlock_model::{JobId, RunId, StepKey, TenantId, Timestamp};

use super::{CAUSES_MAX, TIMEOUTS_EXPLAINED_MAX, Why, WhyAnswer};

impl Why {
    /// None: there is no such run.
    pub async fn run(&self, tenant: &TenantId, id: RunId) -> Result<Option<WhyAnswer>, StoreError> {
        self.why_run(tenant, id, CAUSES_MAX).await
    }

    /// With at most this many causes: of a child, the first is part of a cause of its parent.
    async fn why_run(
        &self,
        tenant: &TenantId,
        id: RunId,
        causes_max: usize,
    ) -> Result<Option<WhyAnswer>, StoreError> {
        let Some(run) = self.store.call(ReadRun { tenant: tenant.clone(), run: id }).await? else {
            return Ok(None);
        };
        let ownership = self.store.call(ReadRunOwnership { tenant: tenant.clone(), run: id }).await?;
        let (now, status) = (ownership.now, run.head.status);
        if status.is_final() {
            let ended = Cause::new(CauseCode::Ended, format!("the run is {}", status.name()));
            let ended = Cause { since: run.head.completed_at, ..ended };
            return Ok(Some(WhyAnswer::new(status.name(), now, vec![ended])));
        }
        if let Some(quarantine) = ownership.quarantine {
            return Ok(Some(WhyAnswer::new(status.name(), now, vec![quarantined(id, quarantine)])));
        }
        if status == RunStatus::Queued
            && let Some(cause) = self.why_no_slot(tenant, id, now).await?
        {
            return Ok(Some(WhyAnswer::new(status.name(), now, vec![cause])));
        }
        let mut causes: Vec<Cause> = self.why_held(id, &ownership).into_iter().collect();
        let pinned =
            self.definitions.version(tenant, &run.start.workflow, run.start.workflow_version).await?;
        let mut more = 0;
        for (key, step) in run.steps.iter().filter(|(_, step)| waits(step)) {
            // Each may cost a read; a fan-out of thousands is represented by its first steps.
            if causes.len() >= causes_max {
                more += 1;
                continue;
            }
            let cause = self.why_step(tenant, pinned.as_deref(), (key, step), now).await?;
            causes.push(Cause { step: Some(key.clone()), ..cause });
        }
        if causes.is_empty() {
            causes.push(ready(&run, &ownership));
        }
        Ok(Some(WhyAnswer { more, ..WhyAnswer::new(status.name(), now, causes) }))
    }

    /// The run's own lock, if it keeps the run from advancing.
    fn why_held(&self, run: RunId, ownership: &RunOwnership) -> Option<Cause> {
        let RunHolder { instance: holder, until } = ownership.holder.as_ref()?;
        let waits_for_lock = self.process.settings.run_strategy == RunStrategy::Lock;
        if !ownership.is_ready && holder.is_some() && !waits_for_lock {
            return None;
        }
        let name = holder.as_ref().map_or_else(|| "a value that is not ours".to_owned(), ToString::to_string);
        let sentence =
            format!("the lock of run {run} is held by {name}, so no other process can advance the run");
        let holders = vec![Holder { name, since: None, until: *until }];
        let cause = Cause { holders, ..Cause::new(CauseCode::LockHeld, sentence) };
        Some(match until {
            Some(until) => cause.ending(*until, ownership.now),
            None => cause,
        })
    }

    /// An approval has an id like a job's. None: it is not open, or never was.
    pub(super) async fn why_asked(
        &self,
        tenant: &TenantId,
        id: &JobId,
    ) -> Result<Option<WhyAnswer>, StoreError> {
        let Some(run) = self.store.call(ReadRun { tenant: tenant.clone(), run: id.run }).await? else {
            return Ok(None);
        };
        let asked = run.steps.get(&id.step).filter(|step| step.job.as_ref() == Some(id));
        let Some(step) = asked.filter(|step| step.status == StepStatus::Waiting) else { return Ok(None) };
        let now = self.store.call(ReadRunOwnership { tenant: tenant.clone(), run: id.run }).await?.now;
        let cause = approval_open(&id.step, id, step);
        Ok(Some(WhyAnswer::new(step.status.name(), now, vec![cause])))
    }

    async fn why_step(
        &self,
        tenant: &TenantId,
        workflow: Option<&Workflow>,
        (key, step): (&StepKey, &StepRun),
        now: Timestamp,
    ) -> Result<Cause, StoreError> {
        if let Some(awaits) = &step.awaits {
            return Ok(event_awaited(key, awaits, (step, now)));
        }
        if let Some(at) = step.wake_at {
            return Ok(until(workflow, (key, step), (at, now)));
        }
        if let Some(child) = step.child.filter(|_| step.child_open) {
            return self.why_child(tenant, key, child).await;
        }
        let Some(job) = step.job.as_ref().filter(|_| step.job_open) else {
            return Ok(Cause::new(CauseCode::Ready, format!("step {key} is about to begin")));
        };
        if step.status == StepStatus::Waiting {
            let open = approval_open(key, job, step);
            // Where the policy or a budget asks, there is a job, which says why.
            let Some(found) = self.store.call(ReadJob { tenant: tenant.clone(), job: job.clone() }).await?
            else {
                return Ok(open);
            };
            let Some(hold) = &found.hold else { return Ok(open) };
            let cause = self.held(tenant, (&found, hold), now).await?;
            let sentence = format!("{}: {}", open.sentence, cause.sentence);
            return Ok(Cause { sentence, until: cause.until, ..open });
        }
        match self.job(tenant, job).await?.and_then(|why| why.causes.into_iter().next()) {
            Some(cause) => Ok(cause),
            None => Ok(Cause::new(
                CauseCode::Ready,
                format!("the job {job} of step {key} is missing. Check: `interlock doctor`"),
            )),
        }
    }

    /// The step waits for a run: what that waits for.
    async fn why_child(&self, tenant: &TenantId, key: &StepKey, child: RunId) -> Result<Cause, StoreError> {
        // As deep as runs are nested, which is bounded.
        let why = Box::pin(self.why_run(tenant, child, 1)).await?;
        let cause = why.and_then(|why| Some((why.causes.into_iter().next()?, why.state)));
        Ok(match cause {
            None => Cause::new(
                CauseCode::Ready,
                format!("step {key} waits for child run {child}, which is about to be started"),
            ),
            Some((cause, state)) => {
                let sentence =
                    format!("step {key} waits for child run {child}, which is {state}: {}", cause.sentence);
                Cause { sentence, ..cause }
            }
        })
    }

    /// What steps that time out now have waited for. Waits that cannot be explained are left out.
    pub(crate) async fn waits_timing_out(
        &self,
        tenant: &TenantId,
        steps: &BTreeMap<StepKey, StepRun>,
        (inbox, now): (&[InboxEvent], Timestamp),
    ) -> BTreeMap<StepKey, String> {
        let is_late = |step: &StepRun| {
            let mut deadlines = step.deadline_at.into_iter().chain(step.total_deadline_at);
            deadlines.any(|at| at <= now) && (step.job_open || step.child_open)
        };
        let mut waits = BTreeMap::new();
        for (key, step) in steps.iter().filter(|(_, step)| is_late(step)).take(TIMEOUTS_EXPLAINED_MAX) {
            if let Ok(cause) = self.why_step(tenant, None, (key, step), now).await {
                waits.insert(key.clone(), cause.sentence);
            }
        }
        let unclaimed = inbox.iter().filter_map(|event| {
            let InboxEvent::Job { job, outcome: JobOutcome::Unclaimed, .. } = event else { return None };
            Some(job)
        });
        for job in unclaimed.take(TIMEOUTS_EXPLAINED_MAX) {
            if let Ok(Some(why)) = self.why_unclaimed(tenant, job).await {
                waits.insert(job.step.clone(), why);
            }
        }
        waits
    }
}

/// Whether the step waits for an event itself, and not through its items or branches.
pub(super) fn waits(step: &StepRun) -> bool {
    let is_begun = matches!(step.status, StepStatus::Running | StepStatus::Waiting);
    let is_awaited = step.job_open || step.child_open || step.awaits.is_some();
    is_begun && (is_awaited || step.wake_at.is_some())
}

fn event_awaited(key: &StepKey, awaits: &AwaitedEvent, (step, now): (&StepRun, Timestamp)) -> Cause {
    let cause = Cause::new(CauseCode::EventAwaited, format!("step {key} waits for {awaits}"));
    let cause = Cause { since: step.started_at, ..cause };
    match step.deadline_at {
        Some(deadline) => cause.ending(deadline, now),
        None => cause,
    }
}

fn approval_open(key: &StepKey, job: &JobId, step: &StepRun) -> Cause {
    let sentence = format!("step {key} waits for an approval ({job})");
    let cause = Cause::new(CauseCode::ApprovalOpen, sentence);
    Cause { job: Some(job.clone()), since: step.started_at, ..cause }
}

fn until(
    workflow: Option<&Workflow>,
    (key, step): (&StepKey, &StepRun),
    (at, now): (Timestamp, Timestamp),
) -> Cause {
    let kind = workflow.and_then(|workflow| workflow.steps.get(&key.step)).map(|step| &step.kind);
    let cause = if let Some(StepKind::Delay(_)) = kind {
        Cause::new(CauseCode::Delay, format!("step {key} is a delay until {at}"))
    } else {
        let error = step.error.as_ref().map_or_else(String::new, |error| format!(" ({})", error.message));
        let times = if step.failures == 1 { "once".to_owned() } else { format!("{} times", step.failures) };
        Cause::new(
            CauseCode::RetryBackoff,
            format!("step {key} has failed {times}{error} and is tried again at {at}"),
        )
    };
    Cause { since: step.started_at, ..cause.ending(at, now) }
}

fn quarantined(run: RunId, Quarantine { since, tries }: Quarantine) -> Cause {
    let sentence = format!("run {run} is quarantined after {tries} tries in a row: {QUARANTINE_REASON}");
    let job = Some(Quarantine::letter_id(run));
    Cause { job, since: Some(since), ..Cause::new(CauseCode::Quarantined, sentence) }
}

fn ready(run: &Run, ownership: &RunOwnership) -> Cause {
    let sentence = if ownership.abandoned >= SUSPECT_FROM {
        "the last turns of the run were abandoned, so it is tried again alone"
    } else if run.head.status == RunStatus::Queued {
        "the run has its slots and waits for the engine to begin it"
    } else if run.head.status == RunStatus::Pending {
        "the run was admitted and waits for the engine to begin it"
    } else if ownership.is_ready {
        "the run has new input and waits for the engine"
    } else {
        "the run is between two turns"
    };
    Cause { since: Some(run.head.updated_at), ..Cause::new(CauseCode::Ready, sentence) }
}
