//! Which steps may begin now.

use super::{Illegal, Machine};
use crate::StepId;
use crate::StepKey;
use crate::history::EventKind;
use crate::step::{StepEvent, StepStatus};
use crate::workflow::Step;

/// Whether a pending step may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Now,
    Later,
    /// Nothing failed that it would have handled.
    Never,
}

impl Machine<'_> {
    /// Begins every step that may. One pass is enough: each step comes after all that it waits for.
    pub(super) fn begin_ready(&mut self) -> Result<(), Illegal> {
        let workflow = self.workflow;
        for id in &workflow.order {
            if self.has_ended() || (self.has_failure && self.has_fatal_failure()) {
                return Ok(());
            }
            if self.status(id) != StepStatus::Pending {
                continue;
            }
            let step = &workflow.steps[id];
            match self.readiness(step) {
                Readiness::Now => self.begin_unless_skipped(id, step)?,
                Readiness::Later => {}
                Readiness::Never => self.skip(id, "nothing failed that it handles")?,
            }
        }
        Ok(())
    }

    fn readiness(&self, step: &Step) -> Readiness {
        let handled = || step.handles.iter().map(|source| self.status(source));
        if !step.handles.is_empty() && !handled().any(StepStatus::is_failure) {
            return if handled().all(StepStatus::is_settled) { Readiness::Never } else { Readiness::Later };
        }
        let mut waits_for = step.depends_on.difference(&step.handles);
        if waits_for.all(|dependency| self.is_satisfied(dependency)) {
            Readiness::Now
        } else {
            Readiness::Later
        }
    }

    /// A dependency is satisfied when it succeeded, was skipped, or failed and its handler made good for it.
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
            None | Some(Ok(true)) => self.begin(id, step),
            Some(Ok(false)) => self.skip(id, "its condition does not hold"),
            Some(Err(error)) => {
                let message = format!("condition: {error}");
                self.tell(self.event(EventKind::StepConditionFailed, &key).saying(message.clone()));
                self.settle_failure(&key, StepEvent::Fail, crate::step::ErrorCode::ExpressionFailed, message)
            }
        }
    }

    fn skip(&mut self, id: &StepId, why: &str) -> Result<(), Illegal> {
        let key = StepKey::whole(id);
        self.move_step(&key, StepEvent::Skip)?;
        self.tell(self.event(EventKind::StepSkipped, &key).saying(why));
        Ok(())
    }
}
