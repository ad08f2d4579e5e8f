//! The run's status after a turn.

use serde_json::{Map, Value};

use super::super::{Ending, RunEvent, RunStatus};
use super::{Illegal, Machine};
use crate::history::EventKind;
use crate::step::{StepError, StepEvent, StepStatus};
use crate::{StepId, StepKey};

impl Machine<'_> {
    pub(super) fn conclude(&mut self) -> Result<(), Illegal> {
        if self.has_ended() {
            return Ok(());
        }
        if let Some((step, ending)) = self.fatal_failure() {
            let error = self.run.steps.get(&StepKey::whole(&step)).and_then(|step| step.error.clone());
            self.run.head.error = error.map(|error| StepError { step: Some(step), ..error });
            return self.end(ending);
        }
        if self.workflow.order.iter().all(|step| self.status(step).is_settled()) {
            return self.end(Ending::Succeeded);
        }
        let waits = self.run.steps.values().any(|step| step.status == StepStatus::Waiting);
        match (self.run.head.status, waits) {
            (RunStatus::Running, true) => self.move_run(RunEvent::OpenApproval),
            (RunStatus::Waiting, false) => self.move_run(RunEvent::CloseLastApproval),
            _ => Ok(()),
        }
    }

    pub(super) fn has_fatal_failure(&self) -> bool {
        self.fatal_failure().is_some()
    }

    /// A failure that no handler can recover, and how it ends the run.
    fn fatal_failure(&self) -> Option<(StepId, Ending)> {
        let fatal = self.workflow.order.iter().find(|step| self.is_fatal(step))?;
        let ending = match self.status(fatal) {
            StepStatus::Denied => Ending::Denied,
            StepStatus::TimedOut => Ending::TimedOut,
            StepStatus::Cancelled => Ending::Cancelled,
            StepStatus::Failed
            | StepStatus::Pending
            | StepStatus::Running
            | StepStatus::Waiting
            | StepStatus::Succeeded
            | StepStatus::Skipped => Ending::Failed,
        };
        Some((fatal.clone(), ending))
    }

    fn is_fatal(&self, step: &StepId) -> bool {
        if !self.status(step).is_failure() {
            return false;
        }
        let definition = self.definition(step);
        if definition.is_some_and(|step| step.owner.is_some()) {
            return false;
        }
        match definition.and_then(|step| step.on_error.as_ref()) {
            None => true,
            Some(handler) => self.status(handler) == StepStatus::Skipped || self.is_fatal(handler),
        }
    }

    /// Ends the run and closes all open jobs and approvals.
    pub(super) fn end(&mut self, ending: Ending) -> Result<(), Illegal> {
        let open: Vec<StepKey> = self
            .run
            .steps
            .iter()
            .filter(|(_, step)| !step.status.is_settled() || step.job_open || step.child_open)
            .map(|(key, _)| key.clone())
            .collect();
        for key in open {
            self.revoke_job(&key);
            self.step(&key).pending_items = Vec::new();
            if !self.step(&key).status.is_settled() {
                let can_time_out = self.step(&key).status != StepStatus::Pending;
                let timed_out = ending == Ending::TimedOut && can_time_out;
                self.move_step(&key, if timed_out { StepEvent::TimeOut } else { StepEvent::Cancel })?;
                // The step's event covers its items, to keep the timeline readable.
                if key.item.is_none() {
                    let kind = if timed_out { EventKind::StepTimedOut } else { EventKind::StepCancelled };
                    let status = self.step(&key).status;
                    self.record(
                        self.event(kind, &key).with_status(status.name()).saying("the run has ended"),
                    );
                }
            }
        }
        if ending == Ending::Succeeded {
            self.run.head.output = Some(self.output());
        }
        self.run.head.completed_at = Some(self.now);
        self.move_run(RunEvent::End(ending))
    }

    /// The run's output: the outputs of the steps that no other step depends on.
    fn output(&self) -> Value {
        let outputs = self.workflow.leaves.iter().filter_map(|step| {
            let output = self.run.steps.get(&StepKey::whole(step))?.output.clone()?;
            Some((step.as_str().to_owned(), output))
        });
        Value::Object(outputs.collect::<Map<String, Value>>())
    }
}
