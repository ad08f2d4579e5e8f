//! How each step type begins.

use serde_json::{Value, json};

use super::{Illegal, Machine};
use crate::approval::{Approval, ApprovalState};
use crate::expression::Template;
use crate::history::{Event, EventKind};
use crate::job::NewJob;
use crate::step::{ErrorCode, StepEvent};
use crate::workflow::{Delay, Step, StepKind, SubworkflowRule};
use crate::{JobId, StepKey, Timestamp};

impl Machine<'_> {
    /// Begins a step, or a round of the body of a loop.
    pub(super) fn begin(&mut self, key: &StepKey, step: &Step) -> Result<(), Illegal> {
        match &step.kind {
            StepKind::Worker { fan_out: Some(rule), .. }
            | StepKind::Subworkflow(SubworkflowRule { fan_out: Some(rule), .. }) => {
                self.begin_fan_out(&key.step, rule)
            }
            StepKind::Worker { fan_out: None, .. } | StepKind::Subworkflow(_) => self.dispatch(key),
            StepKind::Approval { input } => self.ask_approval(key, input.as_ref()),
            StepKind::Delay(delay) => self.begin_delay(key, delay),
            StepKind::Condition { test } => {
                self.move_step(key, StepEvent::Begin)?;
                let truth =
                    self.holds(key, test).map(Value::Bool).map_err(|error| format!("condition: {error}"));
                self.end_computed(key, truth, EventKind::StepConditionEvaluated)
            }
            StepKind::Transform { input } => {
                self.move_step(key, StepEvent::Begin)?;
                let output = self.render_input(key, input);
                self.end_computed(key, output, EventKind::StepTransformCompleted)
            }
            StepKind::Notify { input } => {
                self.move_step(key, StepEvent::Begin)?;
                let message = self.render_input(key, input);
                self.end_computed(key, message, EventKind::StepEventEmitted)
            }
            StepKind::Switch(rule) => self.choose_branch(key, rule),
            StepKind::Parallel(rule) => self.begin_parallel(key, rule),
            StepKind::Loop(rule) => self.begin_loop(key, rule),
            StepKind::Storage(rule) => self.store(key, rule),
            StepKind::WaitEvent(rule) => self.wait_for_event(key, rule),
        }
    }

    /// Ends a step whose output the engine computes itself.
    pub(super) fn end_computed(
        &mut self,
        key: &StepKey,
        output: Result<Value, String>,
        kind: EventKind,
    ) -> Result<(), Illegal> {
        let output = match output {
            Ok(output) => output,
            Err(problem) => return self.fail_expression(key, problem),
        };
        match self.keep_rendered("the output", &output) {
            Ok(()) => self.take_output(key, output, kind),
            Err(problem) => self.fail_as_too_large(key, problem),
        }
    }

    pub(super) fn render_input(&self, key: &StepKey, input: &Template) -> Result<Value, String> {
        self.render(key, input).map_err(|error| format!("input: {error}"))
    }

    /// Dispatches the step or item as a new job, or as a run of its own.
    pub(super) fn dispatch(&mut self, key: &StepKey) -> Result<(), Illegal> {
        let Some(step) = self.definition(&key.step) else { return Ok(()) };
        let (topic, input, fan_out) = match &step.kind {
            StepKind::Worker { topic, input, fan_out } => (topic, input, fan_out),
            StepKind::Subworkflow(rule) => return self.start_child(key, rule),
            StepKind::Approval { .. }
            | StepKind::Condition { .. }
            | StepKind::Delay(_)
            | StepKind::Transform { .. }
            | StepKind::Notify { .. }
            | StepKind::Switch(_)
            | StepKind::Parallel(_)
            | StepKind::Loop(_)
            | StepKind::Storage(_)
            | StepKind::WaitEvent(_) => return Ok(()),
        };
        let rendered = match input {
            Some(input) => self.render_input(key, input),
            None => Ok(self.default_input(key, fan_out.is_some())),
        };
        let input = match rendered {
            Ok(input) => input,
            Err(problem) => return self.fail_expression(key, problem),
        };
        if let Some(Err(violation)) = step.input_schema.as_ref().map(|schema| schema.check(&input)) {
            let message = format!("the input does not match its schema: {violation}");
            return self.settle_failure(key, ErrorCode::InvalidInput, message);
        }
        if let Err(problem) = self.keep_rendered("the input", &input) {
            return self.fail_as_too_large(key, problem);
        }
        if self.run.steps.get(key).is_none_or(|step| step.status == crate::step::StepStatus::Pending) {
            self.move_step(key, StepEvent::Begin)?;
        }
        let id = self.open_job(key);
        self.start_total_timeout(key);
        let event = Event::new(self.now, EventKind::StepDispatched).of_job(&id);
        self.record(event.with_data(json!({"topic": topic.as_str()})));
        self.effects.dispatched.push(NewJob {
            id,
            workflow: self.workflow.id.clone(),
            topic: topic.clone(),
            input,
            deadline_at: self.deadline_of(key),
            timeout: step.timeout,
            queue_until: step.queue_timeout.map(|timeout| self.now + timeout),
            meta: step.meta.clone(),
            budget: step.budget.clone(),
            trace: self.run.start.trace,
        });
        Ok(())
    }

    /// Numbers the next dispatch or approval of a step.
    fn open_job(&mut self, key: &StepKey) -> JobId {
        let run = self.run.start.run;
        let step = self.step(key);
        step.attempts += 1;
        let job = JobId { run, step: key.clone(), attempt: step.attempts };
        step.job = Some(job.clone());
        step.job_open = true;
        job
    }

    /// Bounds all attempts of a step from the first on, and all attempts of its items together.
    pub(super) fn start_total_timeout(&mut self, key: &StepKey) {
        let Some(definition) = self.definition(&key.step) else { return };
        let is_own = key.item.is_none() || definition.kind.fan_out().is_none();
        if let Some(total) = definition.total_timeout.filter(|_| is_own) {
            let until = self.now + total;
            self.step(key).total_deadline_at.get_or_insert(until);
        }
    }

    /// When its run, its step or the attempts of an item's step time out, whichever comes first.
    pub(super) fn deadline_of(&self, key: &StepKey) -> Option<Timestamp> {
        let whole = StepKey::whole(&key.step);
        let rows = [key, &whole].into_iter().filter_map(|key| self.run.steps.get(key));
        // A row of an earlier release has the deadline of its attempt.
        let of_steps = rows.flat_map(|step| [step.deadline_at, step.total_deadline_at]).flatten();
        of_steps.chain(self.run.head.deadline_at).min()
    }

    fn ask_approval(&mut self, key: &StepKey, input: Option<&Template>) -> Result<(), Illegal> {
        let input = match input.map(|input| self.render_input(key, input)) {
            None => self.run.start.input.clone(),
            Some(Ok(input)) => input,
            Some(Err(problem)) => return self.fail_expression(key, problem),
        };
        if let Err(problem) = self.keep_rendered("the input", &input) {
            return self.fail_as_too_large(key, problem);
        }
        self.move_step(key, StepEvent::AskApproval)?;
        let (job, now) = (self.open_job(key), self.now);
        let timeout = self.definition(&key.step).and_then(|step| step.timeout);
        self.step(key).deadline_at = timeout.map(|timeout| now + timeout);
        self.record(Event::new(now, EventKind::StepWaiting).of_job(&job).saying("waiting for an approval"));
        let workflow = self.workflow.id.clone();
        let state = ApprovalState::Open;
        let approval = Approval { job, workflow, requested_at: now, input, state, because: None };
        self.effects.approvals_opened.push(approval);
        Ok(())
    }

    fn begin_delay(&mut self, key: &StepKey, delay: &Delay) -> Result<(), Illegal> {
        let until = match delay {
            Delay::For(time) => Ok(self.now + *time),
            Delay::Until(time) => self.time(key, time),
        };
        let until = match until {
            Ok(until) => until,
            Err(problem) => return self.fail_expression(key, format!("delay_until: {problem}")),
        };
        self.move_step(key, StepEvent::Begin)?;
        self.step(key).wake_at = Some(until);
        let event = self.event(EventKind::StepDelayStarted, key);
        self.record(event.with_data(json!({"until": until.to_string()})));
        // A time in the past needs no timer.
        if self.run.steps.get(key).and_then(|step| self.due_at(key, step)).is_some_and(|at| at > self.now) {
            return Ok(());
        }
        self.succeed(key, Value::Null, EventKind::StepDelayCompleted)
    }

    fn time(&self, key: &StepKey, template: &Template) -> Result<Timestamp, String> {
        let rendered = self.render(key, template).map_err(|error| error.to_string())?;
        let Value::String(text) = &rendered else { return Err(format!("{rendered} is not a time")) };
        text.parse().map_err(|error: crate::time::InvalidTime| error.to_string())
    }

    /// Starts the timeout of a step that waits for others.
    pub(super) fn begin_timeout(&mut self, key: &StepKey) {
        let (timeout, now) = (self.definition(&key.step).and_then(|step| step.timeout), self.now);
        self.step(key).deadline_at = timeout.map(|timeout| now + timeout);
    }

    /// The input of a job whose step defines none: the item, the round, or the run's input.
    pub(super) fn default_input(&self, key: &StepKey, fans_out: bool) -> Value {
        let input = if let Some(round) = self.round_of(key) {
            json!({"index": round.index, "last": round.last(&self.run)})
        } else if fans_out {
            let item = self.run.steps.get(key).and_then(|step| step.item.clone());
            json!({"item": item, "index": key.item})
        } else {
            self.run.start.input.clone()
        };
        self.with_error(key, input)
    }

    pub(super) fn fail_expression(&mut self, key: &StepKey, message: String) -> Result<(), Illegal> {
        self.settle_failure(key, ErrorCode::ExpressionFailed, message)
    }

    pub(super) fn succeed(&mut self, key: &StepKey, output: Value, kind: EventKind) -> Result<(), Illegal> {
        if let Err(problem) = self.keep_in_context(key, &output) {
            return self.settle_failure(key, ErrorCode::RunTooLarge, problem);
        }
        self.move_step(key, StepEvent::Succeed)?;
        let step = self.step(key);
        let job = step.job.clone();
        step.error = None;
        let shows_output = matches!(kind, EventKind::StepEventEmitted | EventKind::StepSwitchEvaluated);
        let data = shows_output.then(|| output.clone());
        step.output = Some(output);
        let event = self.event(kind, key).with_status("succeeded");
        self.record(Event { job, data, ..event });
        if key.item.is_some() { self.item_succeeded(&key.step) } else { self.owned_ended(&key.step) }
    }
}
