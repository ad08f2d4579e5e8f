//! Another attempt of a step that was given up, on an operator's word.

use serde_json::json;

use super::{Command, Illegal, Machine};
use crate::StepKey;
use crate::dead_letter::DeadLetter;
use crate::history::{Event, EventKind};
use crate::step::{StepEvent, StepRun, StepStatus};
use crate::workflow::StepKind;

impl Machine<'_> {
    /// Gives the letter's step a new attempt, unless it has succeeded meanwhile; where that cannot be, the letter comes
    /// back. What was skipped because it had failed stays skipped.
    pub(super) fn take_retry(&mut self, letter: &DeadLetter, by: &str) -> Result<(), Illegal> {
        if self.has_ended() {
            // It ended between the operator's word and this turn: nothing disappears in silence.
            self.commands.push(Command::BuryJob(letter.clone()));
            return Ok(());
        }
        let key = &letter.job.step;
        let parent_is_denied = key.item.is_some() && self.status(&key.step) == StepStatus::Denied;
        if !self.gives_jobs(key) || parent_is_denied {
            self.commands.push(Command::BuryJob(letter.clone()));
            return Ok(());
        }
        match self.run.steps.get(key).map_or(StepStatus::Pending, |step| step.status) {
            StepStatus::Running => {
                self.revoke_job(key);
                self.tell_retry(letter, by);
                self.dispatch_anew(key)
            }
            StepStatus::Failed | StepStatus::TimedOut | StepStatus::Cancelled => {
                self.tell_retry(letter, by);
                if key.item.is_some() { self.reopen_items(key) } else { self.reopen(key) }
            }
            StepStatus::Succeeded => Ok(()),
            // There is nothing to try again, now or at all.
            StepStatus::Pending | StepStatus::Waiting | StepStatus::Denied | StepStatus::Skipped => {
                self.commands.push(Command::BuryJob(letter.clone()));
                Ok(())
            }
        }
    }

    /// Whether a worker is given this step or item: a step that fans out gives only its items.
    fn gives_jobs(&self, key: &StepKey) -> bool {
        let kind = self.definition(&key.step).map(|step| &step.kind);
        matches!(kind, Some(StepKind::Worker { fan_out, .. }) if fan_out.is_some() == key.item.is_some())
    }

    fn tell_retry(&mut self, letter: &DeadLetter, by: &str) {
        let told = Event::new(self.now, EventKind::StepRetried).of_job(&letter.job);
        let told = told.saying(format!("retried by {by}: {}", letter.reason));
        self.tell(told.with_data(json!({"by": by, "code": letter.code.name()})));
    }

    /// Its losses and failures are forgotten with the cause that the operator has repaired.
    fn dispatch_anew(&mut self, key: &StepKey) -> Result<(), Illegal> {
        let step = self.step(key);
        *step = StepRun {
            losses: 0,
            failures: 0,
            wake_at: None,
            deadline_at: None,
            completed_at: None,
            error: None,
            ..step.clone()
        };
        self.dispatch(key)
    }

    fn reopen(&mut self, key: &StepKey) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Retry)?;
        self.dispatch_anew(key)
    }

    /// An item that failed has taken its step and its siblings with it. All of them go on where they stopped: what
    /// succeeded stays, what was out goes out again, and the rest waits for its turn.
    fn reopen_items(&mut self, failed: &StepKey) -> Result<(), Illegal> {
        let parent = StepKey::whole(&failed.step);
        let Some(next) = self.run.steps.get(&parent).and_then(|step| step.fan_out).map(|it| it.next) else {
            return Ok(());
        };
        if self.status(&failed.step).is_failure() {
            self.move_step(&parent, StepEvent::Retry)?;
            self.move_step(&parent, StepEvent::Begin)?;
            let step = self.step(&parent);
            (step.completed_at, step.error) = (None, None);
        }
        let unfinished = self.items_of(&failed.step).filter(|(_, item)| item.status.is_failure());
        let unfinished: Vec<StepKey> = unfinished.map(|(key, _)| key.clone()).collect();
        for key in unfinished {
            if self.status(&failed.step).is_failure() {
                // One that could not be dispatched has taken them with it again.
                break;
            }
            if key.item.is_some_and(|index| index < next) {
                self.reopen(&key)?;
            } else {
                self.move_step(&key, StepEvent::Retry)?;
                self.step(&key).completed_at = None;
            }
        }
        Ok(())
    }
}
