//! Child runs of a step: asked for, awaited, given up.

use serde_json::{Value, json};

use super::super::RunStatus;
use super::failure::NextTry;
use super::{Illegal, Machine};
use crate::child::{ChildOutcome, DEPTH_MAX, NewChild, ParentLink, child_id};
use crate::history::EventKind;
use crate::step::{ErrorCode, StepEvent, StepStatus};
use crate::workflow::SubworkflowRule;
use crate::{RunId, StepKey};

impl Machine<'_> {
    /// Asks for the child of the next attempt of a step or item.
    pub(super) fn start_child(&mut self, key: &StepKey, rule: &SubworkflowRule) -> Result<(), Illegal> {
        let depth = self.run.start.depth() + 1;
        if depth > DEPTH_MAX {
            let message = format!("the run has {DEPTH_MAX} runs above it: no more may be started below it");
            return self.settle_failure(key, ErrorCode::TooDeep, message);
        }
        let rendered = match &rule.input {
            Some(input) => self.render_input(key, input),
            None => Ok(self.default_input(key, rule.fan_out.is_some())),
        };
        let input = match rendered {
            Ok(input) => input,
            Err(problem) => return self.fail_expression(key, problem),
        };
        if let Err(problem) = self.keep_rendered("the input", &input) {
            return self.fail_as_too_large(key, problem);
        }
        if self.run.steps.get(key).is_none_or(|step| step.status == StepStatus::Pending) {
            self.move_step(key, StepEvent::Begin)?;
        }
        let child = self.open_child(key);
        let event = self.event(EventKind::StepSubworkflowStarted, key);
        self.record(event.with_data(json!({"workflow_id": rule.workflow, "run_id": child})));
        let start = &self.run.start;
        let parent = ParentLink { run: start.run, step: key.clone(), root: start.root(), depth };
        self.effects.children.started.push(NewChild {
            run: child,
            workflow: rule.workflow.clone(),
            input,
            parent,
            labels: start.labels.clone(),
            priority: start.priority,
            trace: start.trace,
        });
        Ok(())
    }

    /// Names the next child of a step, and starts the timeout of the attempt.
    fn open_child(&mut self, key: &StepKey) -> RunId {
        let (run, now) = (self.run.start.run, self.now);
        let timeout = self.definition(&key.step).and_then(|step| step.timeout);
        let step = self.step(key);
        step.attempts += 1;
        let child = child_id(run, key, step.attempts, now);
        step.child = Some(child);
        step.child_open = true;
        step.deadline_at = timeout.map(|timeout| now + timeout);
        self.start_total_timeout(key);
        child
    }

    /// Gives up the child of a step that continues without it.
    pub(super) fn cancel_child(&mut self, key: &StepKey) {
        let step = self.step(key);
        if std::mem::take(&mut step.child_open) {
            let child = step.child;
            self.effects.children.cancelled.extend(child);
        }
    }

    pub(super) fn take_child(
        &mut self,
        key: &StepKey,
        child: RunId,
        outcome: &ChildOutcome,
    ) -> Result<(), Illegal> {
        let found = self.run.steps.get(key);
        let is_awaited = found.is_some_and(|step| {
            step.status == StepStatus::Running && step.child_open && step.child == Some(child)
        });
        if !is_awaited {
            return Ok(());
        }
        self.step(key).child_open = false;
        match outcome {
            ChildOutcome::Succeeded { output } => self.take_child_output(key, output),
            ChildOutcome::Ended { status, message } => {
                let text = format!("run {child} ended {}: {message}", status.name());
                if *status == RunStatus::Cancelled {
                    return self.settle_failure(key, ErrorCode::Cancelled, text);
                }
                // What was decided once is not asked again.
                let next = NextTry::may_help(*status != RunStatus::Denied);
                self.fail_attempt(key, ErrorCode::ChildFailed, text, next)
            }
            ChildOutcome::Refused { code, message, retryable } => {
                self.fail_attempt(key, *code, message.clone(), NextTry::may_help(*retryable))
            }
        }
    }

    fn take_child_output(&mut self, key: &StepKey, output: &Value) -> Result<(), Illegal> {
        match self.keep("the output", output) {
            Ok(()) => self.take_output(key, output.clone(), EventKind::StepSubworkflowCompleted),
            Err(problem) => self.fail_as_too_large(key, problem),
        }
    }
}
