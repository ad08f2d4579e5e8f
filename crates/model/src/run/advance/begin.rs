//! How each step type begins.

use serde_json::{Value, json};

use super::{Command, Illegal, Machine};
use crate::approval::{Approval, ApprovalState};
use crate::expression::Template;
use crate::history::{Event, EventKind};
use crate::job::NewJob;
use crate::step::{ErrorCode, StepEvent};
use crate::workflow::{Delay, Step, StepKind};
use crate::{JobId, StepId, StepKey, Timestamp};

impl Machine<'_> {
    pub(super) fn begin(&mut self, id: &StepId, step: &Step) -> Result<(), Illegal> {
        let key = StepKey::whole(id);
        match &step.kind {
            StepKind::Worker { fan_out: Some(rule), .. } => self.begin_fan_out(id, rule),
            StepKind::Worker { fan_out: None, .. } => self.dispatch(&key),
            StepKind::Approval { input } => self.ask_approval(&key, input.as_ref()),
            StepKind::Condition { test } => {
                self.move_step(&key, StepEvent::Begin)?;
                match self.holds(&key, test) {
                    Ok(truth) => self.succeed(&key, Value::Bool(truth), EventKind::StepConditionEvaluated),
                    Err(error) => self.fail_expression(&key, format!("condition: {error}")),
                }
            }
            StepKind::Delay(delay) => self.begin_delay(&key, delay),
            StepKind::Transform { input } => {
                self.move_step(&key, StepEvent::Begin)?;
                match self.render(&key, input) {
                    Ok(output) => self.finish_transform(&key, step, output),
                    Err(error) => self.fail_expression(&key, format!("input: {error}")),
                }
            }
            StepKind::Notify { input } => {
                self.move_step(&key, StepEvent::Begin)?;
                match self.render(&key, input) {
                    Ok(message) => self.succeed(&key, message, EventKind::StepEventEmitted),
                    Err(error) => self.fail_expression(&key, format!("input: {error}")),
                }
            }
        }
    }

    /// Dispatches the step or item as a new job.
    pub(super) fn dispatch(&mut self, key: &StepKey) -> Result<(), Illegal> {
        let Some(step) = self.definition(&key.step) else { return Ok(()) };
        let StepKind::Worker { topic, input, fan_out } = &step.kind else { return Ok(()) };
        let rendered = match input {
            Some(input) => self.render(key, input),
            None => Ok(self.default_input(key, fan_out.is_some())),
        };
        let input = match rendered {
            Ok(input) => input,
            Err(error) => return self.fail_expression(key, format!("input: {error}")),
        };
        if self.run.steps.get(key).is_none_or(|step| step.status == crate::step::StepStatus::Pending) {
            self.move_step(key, StepEvent::Begin)?;
        }
        let (run, now) = (self.run.start.run, self.now);
        let open = self.step(key);
        open.attempts += 1;
        let id = JobId { run, step: key.clone(), attempt: open.attempts };
        open.job = Some(id.clone());
        open.job_open = true;
        // A dispatch that replaces a lost one keeps the deadline of its attempt.
        open.deadline_at = open.deadline_at.or_else(|| step.timeout.map(|timeout| now + timeout));
        let deadline_at = open.deadline_at.into_iter().chain(self.run.head.deadline_at).min();
        let event = Event::new(now, EventKind::StepDispatched).of_job(&id);
        self.record(event.with_data(json!({"topic": topic.as_str()})));
        let workflow = self.workflow.id.clone();
        self.commands.push(Command::Dispatch(NewJob {
            id,
            workflow,
            topic: topic.clone(),
            input,
            deadline_at,
            meta: step.meta.clone(),
            trace: self.run.start.trace,
        }));
        Ok(())
    }

    fn ask_approval(&mut self, key: &StepKey, input: Option<&Template>) -> Result<(), Illegal> {
        let input = match input.map(|input| self.render(key, input)) {
            None => self.run.start.input.clone(),
            Some(Ok(input)) => input,
            Some(Err(error)) => return self.fail_expression(key, format!("input: {error}")),
        };
        self.move_step(key, StepEvent::AskApproval)?;
        let (run, now) = (self.run.start.run, self.now);
        let timeout = self.definition(&key.step).and_then(|step| step.timeout);
        let step = self.step(key);
        step.attempts += 1;
        let job = JobId { run, step: key.clone(), attempt: step.attempts };
        step.job = Some(job.clone());
        step.job_open = true;
        step.deadline_at = timeout.map(|timeout| now + timeout);
        self.record(Event::new(now, EventKind::StepWaiting).of_job(&job).saying("waiting for an approval"));
        let workflow = self.workflow.id.clone();
        let approval = Approval { job, workflow, requested_at: now, input, state: ApprovalState::Open };
        self.commands.push(Command::OpenApproval(approval));
        Ok(())
    }

    fn begin_delay(&mut self, key: &StepKey, delay: &Delay) -> Result<(), Illegal> {
        let until = match delay {
            Delay::For(time) => Ok(self.now + *time),
            Delay::Until(time) => self.time(key, time),
        };
        match until {
            Ok(until) => {
                self.move_step(key, StepEvent::Begin)?;
                self.step(key).wake_at = Some(until);
                let event = self.event(EventKind::StepDelayStarted, key);
                self.record(event.with_data(json!({"until": until.to_string()})));
                // A time in the past needs no timer.
                if until <= self.now {
                    self.succeed(key, Value::Null, EventKind::StepDelayCompleted)
                } else {
                    Ok(())
                }
            }
            Err(problem) => self.fail_expression(key, format!("delay_until: {problem}")),
        }
    }

    fn time(&self, key: &StepKey, template: &Template) -> Result<Timestamp, String> {
        match self.render(key, template).map_err(|error| error.to_string())? {
            Value::String(text) => text.parse().map_err(|error: crate::time::InvalidTime| error.to_string()),
            other
            @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(format!("{other} is not a time"))
            }
        }
    }

    fn finish_transform(&mut self, key: &StepKey, step: &Step, output: Value) -> Result<(), Illegal> {
        match step.output_schema.as_ref().map(|schema| schema.check(&output)) {
            Some(Err(violation)) => {
                let message = format!("the output does not match its schema: {violation}");
                self.record(self.event(EventKind::StepOutputInvalid, key).saying(message.clone()));
                self.settle_failure(key, StepEvent::Fail, ErrorCode::OutputInvalid, message)
            }
            Some(Ok(())) | None => self.succeed(key, output, EventKind::StepTransformCompleted),
        }
    }

    /// The input of a job whose step defines none: the item, or the run's input.
    fn default_input(&self, key: &StepKey, fans_out: bool) -> Value {
        let input = if fans_out {
            let item = self.run.steps.get(key).and_then(|step| step.item.clone());
            json!({"item": item, "index": key.item})
        } else {
            self.run.start.input.clone()
        };
        self.with_error(key, input)
    }

    pub(super) fn fail_expression(&mut self, key: &StepKey, message: String) -> Result<(), Illegal> {
        self.settle_failure(key, StepEvent::Fail, ErrorCode::ExpressionFailed, message)
    }

    pub(super) fn succeed(&mut self, key: &StepKey, output: Value, kind: EventKind) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Succeed)?;
        let step = self.step(key);
        let job = step.job.clone();
        step.error = None;
        let data = (kind == EventKind::StepEventEmitted).then(|| output.clone());
        step.output = Some(output);
        let event = self.event(kind, key).with_status("succeeded");
        self.record(Event { job, data, ..event });
        if key.item.is_some() { self.item_succeeded(&key.step) } else { Ok(()) }
    }
}
