//! An operator's retry of a dead letter.

use serde_json::json;

use super::{Illegal, Machine};
use crate::StepKey;
use crate::dead_letter::DeadLetter;
use crate::history::{Event, EventKind};
use crate::step::{StepEvent, StepRun, StepStatus};
use crate::workflow::StepKind;

impl Machine<'_> {
    /// Dispatches the letter's step again, unless it has succeeded meanwhile. If that is impossible, the letter returns to
    /// its list. Steps that were skipped because of the failure stay skipped.
    pub(super) fn take_retry(&mut self, letter: &DeadLetter, by: &str) -> Result<(), Illegal> {
        let key = &letter.job.step;
        let parent_is_denied = key.item.is_some() && self.status(&key.step) == StepStatus::Denied;
        // The run may have ended since the operator's request.
        let owner = self.definition(&key.step).and_then(|step| step.owner.as_ref());
        let owner_has_ended = owner.is_some_and(|owner| self.status(owner).is_settled());
        if self.has_ended() || !self.is_dispatchable(key) || parent_is_denied || owner_has_ended {
            self.effects.buried.push(letter.clone());
            return Ok(());
        }
        match self.run.steps.get(key).map_or(StepStatus::Pending, |step| step.status) {
            StepStatus::Running => {
                self.revoke_job(key);
                self.record_retry(letter, by);
                self.dispatch_again(key)
            }
            StepStatus::Failed | StepStatus::TimedOut | StepStatus::Cancelled => {
                self.record_retry(letter, by);
                if key.item.is_some() { self.reopen_items(key) } else { self.reopen(key) }
            }
            StepStatus::Succeeded => Ok(()),
            // There is nothing to retry.
            StepStatus::Pending | StepStatus::Waiting | StepStatus::Denied | StepStatus::Skipped => {
                self.effects.buried.push(letter.clone());
                Ok(())
            }
        }
    }

    /// Whether this step or item is dispatched to workers. A step that fans out dispatches only its items, the body of a
    /// loop only its rounds.
    fn is_dispatchable(&self, key: &StepKey) -> bool {
        let kind = self.definition(&key.step).map(|step| &step.kind);
        let Some(StepKind::Worker { fan_out, .. }) = kind else { return false };
        let has_items = fan_out.is_some() || self.is_body(&key.step);
        has_items == key.item.is_some()
    }

    fn record_retry(&mut self, letter: &DeadLetter, by: &str) {
        let event = Event::new(self.now, EventKind::StepRetried).of_job(&letter.job);
        let event = event.saying(format!("retried by {by}: {}", letter.reason));
        self.record(event.with_data(json!({"by": by, "code": letter.code.name()})));
    }

    /// Resets losses and failures, because the operator has repaired their cause.
    fn dispatch_again(&mut self, key: &StepKey) -> Result<(), Illegal> {
        let step = self.step(key);
        *step = StepRun {
            losses: 0,
            releases: 0,
            failures: 0,
            wake_at: None,
            deadline_at: None,
            total_deadline_at: None,
            completed_at: None,
            error: None,
            ..step.clone()
        };
        self.dispatch(key)
    }

    fn reopen(&mut self, key: &StepKey) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Retry)?;
        self.dispatch_again(key)
    }

    /// A failed item also failed its step and cancelled its siblings. All of them continue: succeeded items stay,
    /// dispatched items are dispatched again, and the rest wait for their turn.
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
            self.start_total_timeout(&parent);
        }
        let unfinished = self.items_of(&failed.step).filter(|(_, item)| item.status.is_failure());
        let unfinished: Vec<StepKey> = unfinished.map(|(key, _)| key.clone()).collect();
        for key in unfinished {
            if self.status(&failed.step).is_failure() {
                // An item that could not be dispatched failed the step again.
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
