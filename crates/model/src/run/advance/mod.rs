//! Advancing a run: `(workflow, run, inbox, now) -> (run, effects)`.
//!
//! Pure, so that the engine, the simulation and the tests share it. The store writes the effects in the same commit as
//! the run, so a crash loses neither.

mod begin;
mod children;
mod conclude;
mod due;
mod events;
mod failure;
mod fan_out;
mod parallel;
mod ready;
mod retry;
mod rounds;
pub mod scope;
pub mod size;
mod storage;
mod switch;
mod take;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::context::Context;
use super::{Ending, IllegalRun, InboxEvent, Run, RunEvent, RunStatus};
use crate::approval::Approval;
use crate::child::{ChildEffects, ChildReport};
use crate::dead_letter::DeadLetter;
use crate::event::WaitEffects;
use crate::history::{Event, EventKind};
use crate::job::NewJob;
use crate::limit::RunBounds;
use crate::step::{ErrorCode, IllegalStep, StepError, StepEvent, StepRun, StepStatus};
use crate::workflow::{Step, Workflow};
use crate::{JobId, StepId, StepKey, Timestamp};

/// Lost dispatches after which a step becomes a dead letter.
pub const LOSSES_MAX: u32 = 10;

/// Dispatches of a step that workers may release before each further one counts as a failure.
pub const RELEASES_MAX: u32 = 10;

/// Maximum number of items of one fan-out.
pub const ITEMS_MAX: usize = 10_000;

/// Jobs that one turn dispatches, and items that it writes, before it leaves the rest to the next: between two commits the
/// store serves others.
pub const PIECE_MAX: usize = 500;

/// The result of one turn, written in one commit.
#[derive(Debug)]
pub struct Advance {
    pub run: Run,
    /// The steps whose rows changed. Only these are written.
    pub changed: BTreeSet<StepKey>,
    pub effects: Effects,
    pub events: Vec<Event>,
    /// The turn was cut: the next one has something to do, whatever comes.
    pub continues: bool,
}

/// What a turn opens and closes besides the rows of its run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    pub dispatched: Vec<NewJob>,
    /// Jobs that end. Their fences are raised.
    pub revoked: Vec<JobId>,
    pub approvals_opened: Vec<Approval>,
    pub approvals_withdrawn: Vec<JobId>,
    /// New dead letters.
    pub buried: Vec<DeadLetter>,
    pub children: ChildEffects,
    pub waits: WaitEffects,
}

impl Effects {
    /// Drops jobs and approvals that this turn both opened and closed. A store that closes before it opens would not find
    /// the row to close, and would leave it open forever.
    fn drop_undone(&mut self) {
        let closed: BTreeSet<JobId> = self.revoked.iter().chain(&self.approvals_withdrawn).cloned().collect();
        let opened = self.dispatched.iter().map(|job| &job.id);
        let opened = opened.chain(self.approvals_opened.iter().map(|approval| &approval.job));
        let undone: BTreeSet<JobId> = opened.filter(|job| closed.contains(job)).cloned().collect();
        self.dispatched.retain(|job| !undone.contains(&job.id));
        self.approvals_opened.retain(|approval| !undone.contains(&approval.job));
        self.revoked.retain(|job| !undone.contains(job));
        self.approvals_withdrawn.retain(|job| !undone.contains(job));
        self.children.drop_undone();
        self.waits.drop_undone();
    }
}

/// An invalid transition: a bug in these rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error(transparent)]
    Run(#[from] IllegalRun),
    #[error(transparent)]
    Step(#[from] IllegalStep),
}

/// What a turn goes by, besides its run.
#[derive(Debug, Clone, Default)]
pub struct TurnContext {
    /// The store's clock.
    pub now: Timestamp,
    /// How far the wall clock is ahead of the store's, in milliseconds; negative if it is behind.
    pub wall_lead: i64,
    pub bounds: RunBounds,
    /// What each step waits for, where known: it becomes part of the message of its timeout.
    pub waits: BTreeMap<StepKey, String>,
}

impl TurnContext {
    /// With the bounds that apply where none are set.
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }
}

/// Applies `inbox` and advances the run as far as possible.
pub fn advance(
    workflow: &Workflow,
    run: Run,
    inbox: &[InboxEvent],
    context: &TurnContext,
) -> Result<Advance, Illegal> {
    let had_ended = run.head.status.is_final();
    let mut machine = Machine {
        workflow,
        stored: Context::of(&run),
        run,
        now: context.now,
        context,
        changed: BTreeSet::new(),
        effects: Effects::default(),
        events: Vec::new(),
        has_failure: false,
        branches_ended: 0,
        had_ended,
        rendered_bytes: 0,
        items_written: 0,
        continues: false,
    };
    machine.start()?;
    for event in inbox {
        machine.take(event)?;
    }
    machine.fire_timers()?;
    if machine.run.head.status != RunStatus::Queued {
        machine.continue_fan_outs()?;
        machine.begin_ready()?;
        machine.conclude()?;
    }
    Ok(machine.finish())
}

/// The state of one turn.
struct Machine<'a> {
    workflow: &'a Workflow,
    run: Run,
    /// What the storage steps have written so far.
    stored: Context,
    now: Timestamp,
    context: &'a TurnContext,
    changed: BTreeSet<StepKey>,
    effects: Effects,
    events: Vec<Event>,
    /// Whether a step failed in this turn. Only then can the run have a new fatal failure.
    has_failure: bool,
    /// Branches that ended in this turn. Each may let a step begin that comes before it in the order.
    branches_ended: usize,
    had_ended: bool,
    rendered_bytes: u64,
    items_written: usize,
    continues: bool,
}

impl<'a> Machine<'a> {
    fn start(&mut self) -> Result<(), Illegal> {
        if self.run.head.status == RunStatus::Pending {
            self.move_run(RunEvent::Start)?;
            self.run.head.started_at = Some(self.now);
            self.run.head.deadline_at = self.workflow.timeout.map(|timeout| self.now + timeout);
            if let Err(message) = self.keep_beginning() {
                self.run.head.error = Some(StepError { code: ErrorCode::RunTooLarge, message, step: None });
                return self.end(Ending::Failed);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Advance {
        if !self.had_ended {
            self.effects.children.report = ChildReport::of(&self.run);
        }
        self.effects.drop_undone();
        self.run.head.due_at = if self.has_ended() { None } else { self.next_due() };
        self.run.head.updated_at = self.now;
        let continues = self.continues && !self.has_ended();
        let Self { run, changed, effects, events, .. } = self;
        Advance { run, changed, effects, events, continues }
    }

    /// Whether this turn must leave what could still be dispatched to the next.
    fn is_full(&mut self) -> bool {
        let is_full = self.effects.dispatched.len() + self.effects.children.started.len() >= PIECE_MAX;
        self.continues |= is_full;
        is_full
    }

    fn next_due(&self) -> Option<Timestamp> {
        let of_steps = self.run.steps.iter().filter_map(|(key, step)| self.due_at(key, step));
        of_steps.chain(self.run.head.deadline_at).chain(self.run.head.queued_until).min()
    }

    fn has_ended(&self) -> bool {
        self.run.head.status.is_final()
    }

    fn definition(&self, step: &StepId) -> Option<&'a Step> {
        self.workflow.steps.get(step)
    }

    /// The topic of the step's jobs, if it has any.
    fn topic_of(&self, step: &StepId) -> Option<crate::Topic> {
        self.definition(step)?.kind.topic().cloned()
    }

    fn status(&self, step: &StepId) -> StepStatus {
        self.run.step_status(step)
    }

    /// The step for writing; marks it as changed.
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
            step.total_deadline_at = None;
            self.end_wait(key);
        }
        Ok(())
    }

    fn move_run(&mut self, event: RunEvent) -> Result<(), Illegal> {
        self.move_run_at(event, self.now)
    }

    fn move_run_at(&mut self, event: RunEvent, at: Timestamp) -> Result<(), Illegal> {
        self.run.head.status = self.run.head.status.apply(event)?;
        let message = self.run.head.error.as_ref().map(|error| error.message.clone());
        let event = Event::new(at, EventKind::RunStatus).with_status(self.run.head.status.name());
        self.record(Event { message, ..event });
        Ok(())
    }

    /// Writes an event to the timeline, which counts toward what the run holds.
    fn record(&mut self, event: Event) {
        self.run.head.held_bytes += size::event_size(&event);
        self.events.push(event);
    }

    fn event(&self, kind: EventKind, key: &StepKey) -> Event {
        Event::new(self.now, kind).of_step(key)
    }

    /// Revokes the open job, withdraws the open approval or cancels the open child of a step that continues without it.
    fn revoke_job(&mut self, key: &StepKey) {
        self.cancel_child(key);
        let step = self.step(key);
        if !step.job_open {
            return;
        }
        step.job_open = false;
        let job = step.job.clone();
        let is_approval = step.status == StepStatus::Waiting && self.topic_of(&key.step).is_none();
        // Revoking a held dispatch also withdraws its approval.
        let closed =
            if is_approval { &mut self.effects.approvals_withdrawn } else { &mut self.effects.revoked };
        closed.extend(job);
    }

    fn items_of(&self, step: &StepId) -> impl Iterator<Item = (&StepKey, &StepRun)> + use<'_, 'a> {
        let items = StepKey::item(step, 0)..=StepKey::item(step, u32::MAX);
        self.run.steps.range::<StepKey, _>(items)
    }
}
