//! Which pending steps begin now.

use super::{Illegal, Machine};
use crate::StepId;
use crate::StepKey;
use crate::history::EventKind;
use crate::step::{StepEvent, StepStatus};
use crate::workflow::{Step, StepKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    Now,
    Later,
    /// Why it is skipped.
    Never(String),
}

impl Machine<'_> {
    /// Begins every ready step.
    pub(super) fn begin_ready(&mut self) -> Result<(), Illegal> {
        while self.pass_over_steps()? {}
        Ok(())
    }

    /// One pass is enough for what follows a step, because each step comes after its dependencies. But what a handler makes
    /// good, or a branch ends, may let a step begin that comes before. Returns whether one has.
    fn pass_over_steps(&mut self) -> Result<bool, Illegal> {
        let (workflow, mut has_handled) = (self.workflow, false);
        let branches_ended = self.branches_ended;
        for id in &workflow.order {
            if self.has_ended() || (self.has_failure && self.has_fatal_failure()) {
                return Ok(false);
            }
            let step = &workflow.steps[id];
            if self.status(id) != StepStatus::Pending {
                if let StepKind::Loop(rule) = &step.kind {
                    self.make_rounds(id, rule)?;
                }
                continue;
            }
            match self.readiness(step) {
                Readiness::Now if self.is_full() => {}
                Readiness::Now => {
                    self.begin_unless_skipped(id, step)?;
                    has_handled |= !step.handles.is_empty() && self.status(id).is_settled();
                }
                Readiness::Later => {}
                Readiness::Never(why) => self.skip(id, &why)?,
            }
        }
        Ok(has_handled || self.branches_ended > branches_ended)
    }

    fn readiness(&self, step: &Step) -> Readiness {
        if let Some(why) = self.closed_route(step) {
            return Readiness::Never(why);
        }
        if let Some(owner) = &step.owner
            && let Some(wait) = self.wait_for_owner(owner)
        {
            return wait;
        }
        let handled = || step.handles.iter().map(|source| self.status(source));
        if !step.handles.is_empty() && !handled().any(StepStatus::is_failure) {
            let has_none = handled().all(StepStatus::is_settled);
            let why = || "no step that it handles failed".to_owned();
            return if has_none { Readiness::Never(why()) } else { Readiness::Later };
        }
        let mut waits_for = step.depends_on.difference(&step.handles);
        if waits_for.all(|dependency| self.is_satisfied(dependency)) {
            Readiness::Now
        } else {
            Readiness::Later
        }
    }

    /// Whether a dependency succeeded, was skipped, or failed and was recovered by its handler.
    fn is_satisfied(&self, step: &StepId) -> bool {
        match self.status(step) {
            StepStatus::Succeeded | StepStatus::Skipped => true,
            StepStatus::Pending | StepStatus::Running | StepStatus::Waiting => false,
            StepStatus::Failed | StepStatus::Denied | StepStatus::Cancelled | StepStatus::TimedOut => {
                let handler = self.definition(step).and_then(|step| step.on_error.as_ref());
                handler.is_some_and(|handler| {
                    let status = self.status(handler);
                    status == StepStatus::Succeeded || (status.is_failure() && self.is_satisfied(handler))
                })
            }
        }
    }

    fn begin_unless_skipped(&mut self, id: &StepId, step: &Step) -> Result<(), Illegal> {
        let key = StepKey::whole(id);
        match step.condition.as_ref().map(|condition| self.holds(&key, condition)) {
            None | Some(Ok(true)) => self.begin(&key, step),
            Some(Ok(false)) => self.skip(id, "its condition is false"),
            Some(Err(error)) => {
                let message = format!("condition: {error}");
                self.record(self.event(EventKind::StepConditionFailed, &key).saying(message.clone()));
                self.fail_expression(&key, message)
            }
        }
    }

    pub(super) fn skip(&mut self, id: &StepId, why: &str) -> Result<(), Illegal> {
        let key = StepKey::whole(id);
        self.move_step(&key, StepEvent::Skip)?;
        self.record(self.event(EventKind::StepSkipped, &key).saying(why));
        self.owned_ended(id)
    }
}
