//! How a run goes on: `(workflow, run, what happened, now) -> (run, what to do)`.
//!
//! Pure, so that the engine, the simulation and a test take the same steps. What is to be done leaves as commands,
//! which the store writes in the same commit as the run; a crash in between loses neither.

mod begin;
mod conclude;
mod failure;
mod fan_out;
mod ready;
mod retry;
pub mod scope;
mod take;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{IllegalRun, InboxEvent, Run, RunEvent};
use crate::approval::Approval;
use crate::dead_letter::DeadLetter;
use crate::history::{Event, EventKind};
use crate::job::NewJob;
use crate::step::{IllegalStep, StepEvent, StepRun, StepStatus};
use crate::workflow::{Step, Workflow};
use crate::{JobId, StepId, StepKey, Timestamp};

/// Dispatches of one step that may lose their worker before it is given up.
pub const LOSSES_MAX: u32 = 10;

/// Items that one step may fan out to.
pub const ITEMS_MAX: usize = 10_000;

/// What must be written, in one step, for the run to have gone on.
#[derive(Debug)]
pub struct Advance {
    pub run: Run,
    /// The steps whose rows changed. A fan-out of thousands writes only these.
    pub changed: BTreeSet<StepKey>,
    pub commands: Vec<Command>,
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Dispatch(NewJob),
    /// This job counts no more: raise its fence.
    Revoke(JobId),
    OpenApproval(Approval),
    WithdrawApproval(JobId),
    /// Given up: kept until somebody has looked at it.
    BuryJob(DeadLetter),
}

impl Command {
    /// The job, or the question, that it begins.
    fn opens(&self) -> Option<&JobId> {
        match self {
            Self::Dispatch(job) => Some(&job.id),
            Self::OpenApproval(approval) => Some(&approval.job),
            Self::Revoke(_) | Self::WithdrawApproval(_) | Self::BuryJob(_) => None,
        }
    }

    /// The job, or the question, that it ends.
    fn closes(&self) -> Option<&JobId> {
        match self {
            Self::Revoke(job) | Self::WithdrawApproval(job) => Some(job),
            Self::Dispatch(_) | Self::OpenApproval(_) | Self::BuryJob(_) => None,
        }
    }
}

/// A transition that the rules do not know: a bug in them, told instead of hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error(transparent)]
    Run(#[from] IllegalRun),
    #[error(transparent)]
    Step(#[from] IllegalStep),
}

/// Takes `inbox` into account and lets the run go as far as it can go at `now`.
pub fn advance(
    workflow: &Workflow,
    run: Run,
    inbox: &[InboxEvent],
    now: Timestamp,
) -> Result<Advance, Illegal> {
    advance_telling(workflow, run, inbox, (now, &BTreeMap::new()))
}

/// The same. What is known of what steps have waited for, told where their time-outs pass.
pub fn advance_telling(
    workflow: &Workflow,
    run: Run,
    inbox: &[InboxEvent],
    (now, waits): (Timestamp, &BTreeMap<StepKey, String>),
) -> Result<Advance, Illegal> {
    let mut machine = Machine::new(workflow, run, (now, waits));
    machine.start()?;
    for event in inbox {
        machine.take(event)?;
    }
    machine.fire_due()?;
    machine.begin_ready()?;
    machine.conclude()?;
    Ok(machine.finish())
}

/// The run on its way from one commit to the next.
struct Machine<'a> {
    workflow: &'a Workflow,
    run: Run,
    now: Timestamp,
    changed: BTreeSet<StepKey>,
    commands: Vec<Command>,
    events: Vec<Event>,
    /// Whether a step failed on this turn: only then can the run have become hopeless.
    has_failure: bool,
    /// What steps wait for, as far as somebody has looked.
    waits: &'a BTreeMap<StepKey, String>,
}

impl<'a> Machine<'a> {
    fn new(
        workflow: &'a Workflow,
        run: Run,
        (now, waits): (Timestamp, &'a BTreeMap<StepKey, String>),
    ) -> Self {
        Self {
            workflow,
            run,
            now,
            changed: BTreeSet::new(),
            commands: Vec::new(),
            events: Vec::new(),
            has_failure: false,
            waits,
        }
    }

    fn start(&mut self) -> Result<(), Illegal> {
        if self.run.head.status == super::RunStatus::Pending {
            self.move_run(RunEvent::Start)?;
            self.run.head.started_at = Some(self.now);
            self.run.head.deadline_at = self.workflow.timeout.map(|timeout| self.now + timeout);
        }
        Ok(())
    }

    fn finish(mut self) -> Advance {
        self.drop_undone();
        self.run.head.due_at = if self.has_ended() { None } else { self.next_due() };
        self.run.head.updated_at = self.now;
        Advance { run: self.run, changed: self.changed, commands: self.commands, events: self.events }
    }

    /// What was both asked for and taken back on this turn was never given out: a store that does one after the other
    /// would look for what it has not written yet, and leave it open for ever.
    fn drop_undone(&mut self) {
        let taken_back: BTreeSet<JobId> = self.commands.iter().filter_map(Command::closes).cloned().collect();
        if taken_back.is_empty() {
            return;
        }
        let opened = self.commands.iter().filter_map(Command::opens);
        let undone: BTreeSet<JobId> = opened.filter(|job| taken_back.contains(job)).cloned().collect();
        let is_undone = |job: &JobId| undone.contains(job);
        self.commands.retain(|command| !command.opens().or(command.closes()).is_some_and(is_undone));
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.run.steps.values().filter_map(StepRun::due_at).chain(self.run.head.deadline_at).min()
    }

    fn has_ended(&self) -> bool {
        self.run.head.status.is_final()
    }

    fn definition(&self, step: &StepId) -> Option<&'a Step> {
        self.workflow.steps.get(step)
    }

    /// Where the step's jobs are queued.
    fn topic_of(&self, step: &StepId) -> Option<crate::Topic> {
        self.definition(step)?.kind.topic().cloned()
    }

    fn status(&self, step: &StepId) -> StepStatus {
        self.run.step_status(step)
    }

    /// The step to change; from here on it counts as changed.
    fn step(&mut self, key: &StepKey) -> &mut StepRun {
        self.changed.insert(key.clone());
        self.run.steps.entry(key.clone()).or_default()
    }

    fn move_step(&mut self, key: &StepKey, event: StepEvent) -> Result<(), Illegal> {
        let now = self.now;
        let step = self.step(key);
        step.status = step.status.apply(event)?;
        if step.started_at.is_none() && step.status != StepStatus::Skipped {
            step.started_at = Some(now);
        }
        if step.status.is_settled() {
            step.completed_at = Some(now);
            step.wake_at = None;
            step.deadline_at = None;
        }
        Ok(())
    }

    fn move_run(&mut self, event: RunEvent) -> Result<(), Illegal> {
        self.run.head.status = self.run.head.status.apply(event)?;
        let told = Event::new(self.now, EventKind::RunStatus).with_status(self.run.head.status.name());
        let told = match &self.run.head.error {
            Some(error) => told.saying(error.message.clone()),
            None => told,
        };
        self.events.push(told);
        Ok(())
    }

    fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    fn event(&self, kind: EventKind, key: &StepKey) -> Event {
        Event::new(self.now, kind).of_step(key)
    }

    /// Closes the dispatch of a step that goes on without it.
    fn revoke_job(&mut self, key: &StepKey) {
        let step = self.step(key);
        if !step.job_open {
            return;
        }
        step.job_open = false;
        let job = step.job.clone();
        let is_question = step.status == StepStatus::Waiting && self.topic_of(&key.step).is_none();
        if let Some(job) = job {
            // A dispatch that waits for a person takes its question with it.
            self.commands.push(if is_question {
                Command::WithdrawApproval(job)
            } else {
                Command::Revoke(job)
            });
        }
    }

    fn items_of(&self, step: &StepId) -> impl Iterator<Item = (&StepKey, &StepRun)> + use<'_, 'a> {
        let items = StepKey::item(step, 0)..=StepKey::item(step, u32::MAX);
        let range: std::collections::btree_map::Range<'_, StepKey, StepRun> =
            BTreeMap::range(&self.run.steps, items);
        range
    }
}
