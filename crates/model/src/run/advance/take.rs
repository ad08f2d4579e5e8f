//! Applying inbox events and due timers.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Ending, InboxEvent, RunEvent, RunStatus};
use super::failure::NextTry;
use super::{Illegal, LOSSES_MAX, Machine, RELEASES_MAX};
use crate::approval::{Decision, Verdict};
use crate::dead_letter::{DeadLetter, LetterCode};
use crate::history::{Event, EventKind};
use crate::job::JobOutcome;
use crate::step::{ErrorCode, StepError, StepEvent, StepStatus};
use crate::workflow::StepKind;
use crate::{JobId, LimitName, RunId, StepKey, Timestamp};

const LEASE_EXPIRED: &str = "the worker's lease expired";

impl Machine<'_> {
    pub(super) fn take(&mut self, event: &InboxEvent) -> Result<(), Illegal> {
        match event {
            // Applied even after the run's end, so that the letter is not lost.
            InboxEvent::Retry { by, letter } => self.take_retry(letter, by),
            InboxEvent::Job { .. }
            | InboxEvent::Approval { .. }
            | InboxEvent::Cancel { .. }
            | InboxEvent::Granted { .. }
            | InboxEvent::Replaced { .. }
            | InboxEvent::Child { .. }
            | InboxEvent::Event(_)
                if self.has_ended() =>
            {
                Ok(())
            }
            InboxEvent::Job { job, outcome, .. } => self.take_outcome(job, outcome),
            InboxEvent::Approval { job, decision } => self.take_decision(job, decision),
            InboxEvent::ApprovalAsked { job, reason } => self.take_question(job, reason),
            InboxEvent::Child { step, child, outcome } => self.take_child(step, *child, outcome),
            InboxEvent::Event(event) => self.take_event(event),
            InboxEvent::Granted { at } => self.take_grant(*at),
            InboxEvent::Replaced { by, limit } => self.take_replacement(*by, limit),
            InboxEvent::Cancel { by } => {
                let message = format!("cancelled by {by}");
                self.run.head.error = Some(StepError { code: ErrorCode::Cancelled, message, step: None });
                self.end(Ending::Cancelled)
            }
        }
    }

    /// The run has had its slots since then.
    fn take_grant(&mut self, at: Timestamp) -> Result<(), Illegal> {
        if self.run.head.status != RunStatus::Queued {
            return Ok(());
        }
        self.run.head.queued_until = None;
        self.move_run_at(RunEvent::Grant, at)?;
        self.start()
    }

    fn take_replacement(&mut self, by: RunId, limit: &LimitName) -> Result<(), Illegal> {
        let has_waited = self.run.head.status == RunStatus::Queued;
        let code = if has_waited { ErrorCode::Superseded } else { ErrorCode::ReplacedBy };
        let outcome = if has_waited { "superseded" } else { "replaced" };
        let message = format!("{outcome} by newer run {by} (limit `{limit}`)");
        self.run.head.error = Some(StepError { code, message, step: None });
        self.end(Ending::Cancelled)
    }

    /// Whether `job` is the dispatch that its step waits for. Any other result is stale and ignored.
    fn is_awaited(&self, job: &JobId, status: StepStatus) -> bool {
        let step = self.run.steps.get(&job.step);
        step.is_some_and(|step| step.status == status && step.job_open && step.job.as_ref() == Some(job))
    }

    fn take_outcome(&mut self, job: &JobId, outcome: &JobOutcome) -> Result<(), Illegal> {
        let key = &job.step;
        if self.is_awaited(job, StepStatus::Waiting) {
            self.resume(key)?;
        } else if !self.is_awaited(job, StepStatus::Running) {
            return Ok(());
        }
        self.step(key).job_open = false;
        match outcome {
            JobOutcome::Completed { output, .. } => match self.keep("the output", output) {
                Ok(()) => self.take_output(key, output.clone(), EventKind::StepCompleted),
                Err(problem) => self.fail_as_too_large(key, problem),
            },
            JobOutcome::Failed { error, retryable, retry_after_ms, .. } => {
                let next = match retry_after_ms.filter(|_| *retryable) {
                    Some(wait) => NextTry::After(Duration::from_millis(wait)),
                    None => NextTry::may_help(*retryable),
                };
                self.fail_attempt(key, ErrorCode::WorkerFailed, error.clone(), next)
            }
            JobOutcome::Lost => self.take_loss(key, job),
            JobOutcome::TimedOut | JobOutcome::Unclaimed => self.take_timeout(key, outcome),
            JobOutcome::Released { reason } => self.take_release(key, job, reason),
            JobOutcome::Cancelled { by } => {
                let message = format!("job cancelled by {by}");
                self.settle_failure(key, ErrorCode::Cancelled, message)
            }
            JobOutcome::Denied { reason } => {
                self.settle_failure(key, ErrorCode::PolicyDenied, reason.clone())
            }
            JobOutcome::Exhausted { reason } => {
                self.settle_failure(key, ErrorCode::BudgetExhausted, reason.clone())
            }
        }
    }

    /// The dispatch waits for a person's approval.
    fn take_question(&mut self, job: &JobId, reason: &str) -> Result<(), Illegal> {
        if !self.is_awaited(job, StepStatus::Running) {
            return Ok(());
        }
        self.move_step(&job.step, StepEvent::AskApproval)?;
        let message = format!("waiting for an approval: {reason}");
        self.record(Event::new(self.now, EventKind::StepWaiting).of_job(job).saying(message));
        Ok(())
    }

    /// The dispatch no longer waits for an approval.
    fn resume(&mut self, key: &StepKey) -> Result<(), Illegal> {
        let is_approval_step = self.topic_of(&key.step).is_none();
        if is_approval_step || self.step(key).status != StepStatus::Waiting {
            return Ok(());
        }
        self.move_step(key, StepEvent::Begin)
    }

    /// Ends a step with an output of its job or of the engine, if the output matches its schema.
    pub(super) fn take_output(
        &mut self,
        key: &StepKey,
        output: Value,
        kind: EventKind,
    ) -> Result<(), Illegal> {
        let message = match self.checked_output(key, output) {
            Ok(output) => return self.succeed(key, output, kind),
            Err(message) => message,
        };
        self.record(self.event(EventKind::StepOutputInvalid, key).saying(message.clone()));
        if matches!(kind, EventKind::StepCompleted | EventKind::StepSubworkflowCompleted) {
            // A model may produce a valid output on the next attempt.
            self.fail_attempt(key, ErrorCode::OutputInvalid, message, NextTry::AfterBackoff)
        } else {
            self.settle_failure(key, ErrorCode::OutputInvalid, message)
        }
    }

    /// The part of a result that is the output, if it matches its schema.
    fn checked_output(&self, key: &StepKey, result: Value) -> Result<Value, String> {
        let Some(step) = self.definition(&key.step) else { return Ok(result) };
        let mut output = result;
        for member in &step.result_path {
            let part = output.get_mut(member).map(Value::take);
            output = part.ok_or_else(|| {
                format!("the result has no {}, which result_data_path names", step.result_path.join("."))
            })?;
        }
        match step.output_schema.as_ref().map(|schema| schema.check(&output)) {
            Some(Err(violation)) => Err(format!("the output does not match its schema: {violation}")),
            Some(Ok(())) | None => Ok(output),
        }
    }

    /// Whether a timer of this turn ends the step or its run. A lease ends at that time at the latest, so that what became
    /// of its job does not matter.
    fn is_timing_out(&self, key: &StepKey) -> bool {
        let whole = StepKey::whole(&key.step);
        let steps = [key, &whole].into_iter().filter_map(|key| self.run.steps.get(key));
        let deadlines = steps.flat_map(|step| [step.deadline_at, step.total_deadline_at]);
        deadlines.chain([self.run.head.deadline_at]).flatten().any(|deadline| deadline <= self.now)
    }

    /// The attempt took too long, or no worker has begun it in time.
    fn take_timeout(&mut self, key: &StepKey, outcome: &JobOutcome) -> Result<(), Illegal> {
        if self.is_timing_out(key) {
            return Ok(());
        }
        let definition = self.definition(&key.step);
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let message = if *outcome == JobOutcome::Unclaimed {
            let bound = seconds(definition.and_then(|step| step.queue_timeout));
            let message =
                format!("the step timed out: no worker claimed it within {bound} s (queue_timeout_sec)");
            match self.context.waits.get(key) {
                Some(wait) => format!("{message}: {wait}"),
                None => message,
            }
        } else {
            let bound = seconds(definition.and_then(|step| step.timeout));
            format!("the step timed out: the attempt took longer than {bound} s (timeout_sec)")
        };
        self.fail_attempt(key, ErrorCode::TimedOut, message, NextTry::AfterBackoff)
    }

    fn take_loss(&mut self, key: &StepKey, job: &JobId) -> Result<(), Illegal> {
        if self.is_timing_out(key) {
            return Ok(());
        }
        let step = self.step(key);
        step.losses += 1;
        let losses = step.losses;
        self.record(Event::new(self.now, EventKind::StepLost).of_job(job).saying(LEASE_EXPIRED));
        if losses < LOSSES_MAX {
            return self.dispatch(key);
        }
        let reason = format!("{losses} dispatches lost their worker");
        self.effects.buried.push(DeadLetter {
            job: job.clone(),
            topic: self.topic_of(&key.step),
            code: LetterCode::WorkerLost,
            reason: reason.clone(),
            attempts: job.attempt,
            last_error: Some(LEASE_EXPIRED.to_owned()),
            buried_at: self.now,
            result: None,
        });
        self.settle_failure(key, ErrorCode::WorkerLost, reason)
    }

    /// Its worker stops working, which is no fault of the job.
    fn take_release(&mut self, key: &StepKey, job: &JobId, reason: &str) -> Result<(), Illegal> {
        if self.is_timing_out(key) {
            return Ok(());
        }
        let step = self.step(key);
        step.releases += 1;
        let releases = step.releases;
        self.record(Event::new(self.now, EventKind::StepJobReleased).of_job(job).saying(reason));
        if releases <= RELEASES_MAX {
            return self.dispatch(key);
        }
        let message = format!("its workers have released the job {releases} times: {reason}");
        self.fail_attempt(key, ErrorCode::WorkerFailed, message, NextTry::AfterBackoff)
    }

    fn take_decision(&mut self, job: &JobId, decision: &Decision) -> Result<(), Illegal> {
        let key = &job.step;
        if !self.is_awaited(job, StepStatus::Waiting) {
            return Ok(());
        }
        let data = json!({"by": decision.by, "reason": decision.reason});
        let is_dispatch = self.topic_of(&key.step).is_some();
        self.step(key).job_open = is_dispatch && decision.verdict == Verdict::Approved;
        match decision.verdict {
            Verdict::Approved if is_dispatch => {
                self.record(Event::new(self.now, EventKind::StepApproved).of_job(job).with_data(data));
                self.resume(key)
            }
            Verdict::Approved => self.succeed(key, data, EventKind::StepApproved),
            Verdict::Rejected => {
                let message = match &decision.reason {
                    Some(reason) => format!("rejected by {}: {reason}", decision.by),
                    None => format!("rejected by {}", decision.by),
                };
                self.settle_failure(key, ErrorCode::Rejected, message)
            }
        }
    }

    /// Fires due timers. Timeouts come first, so that a late retry does not outlive its run.
    pub(super) fn fire_timers(&mut self) -> Result<(), Illegal> {
        if self.has_ended() {
            return Ok(());
        }
        if self.run.head.queued_until.is_some_and(|at| at <= self.now) {
            let message = "the run waited in its queue for as long as it may".to_owned();
            self.run.head.error = Some(StepError { code: ErrorCode::QueueTimeout, message, step: None });
            return self.end(Ending::TimedOut);
        }
        if self.run.head.deadline_at.is_some_and(|at| at <= self.now) {
            let message = "the workflow timed out".to_owned();
            self.run.head.error = Some(StepError { code: ErrorCode::TimedOut, message, step: None });
            return self.end(Ending::TimedOut);
        }
        let mut due: Vec<_> = self
            .run
            .steps
            .iter()
            .filter_map(|(key, step)| Some((self.due_at(key, step)?, key.clone())))
            .collect();
        due.retain(|(at, _)| *at <= self.now);
        due.sort();
        for (_, key) in due {
            // What is due stays due.
            if self.is_full() {
                break;
            }
            self.fire_step(&key)?;
        }
        Ok(())
    }

    fn fire_step(&mut self, key: &StepKey) -> Result<(), Illegal> {
        let now = self.now;
        let Some(step) = self.run.steps.get(key) else { return Ok(()) };
        // A sibling's failure in this turn may have settled a due item.
        if self.due_at(key, step).is_none_or(|at| at > now) {
            return Ok(());
        }
        if step.total_deadline_at.is_some_and(|at| at <= now) {
            return self.end_all_attempts(key);
        }
        if step.deadline_at.is_some_and(|at| at <= now) {
            self.revoke_job(key);
            self.resume(key)?;
            let message = match self.context.waits.get(key) {
                Some(wait) => format!("the step timed out: {wait}"),
                None => match self.run.steps.get(key).and_then(|step| step.awaits.as_ref()) {
                    Some(awaits) => format!("the step timed out: {awaits} did not come"),
                    None => "the step timed out".to_owned(),
                },
            };
            return self.fail_attempt(key, ErrorCode::TimedOut, message, NextTry::AfterBackoff);
        }
        self.step(key).wake_at = None;
        match self.definition(&key.step).map(|step| &step.kind) {
            Some(StepKind::Delay(_)) => self.succeed(key, Value::Null, EventKind::StepDelayCompleted),
            Some(_) | None => self.dispatch(key),
        }
    }

    /// All attempts together have taken too long: no retry is left.
    fn end_all_attempts(&mut self, key: &StepKey) -> Result<(), Illegal> {
        self.revoke_job(key);
        self.resume(key)?;
        if key.item.is_none() {
            self.cancel_items(&key.step)?;
        }
        let total = self.definition(&key.step).and_then(|step| step.total_timeout).unwrap_or_default();
        let seconds = total.as_secs_f64();
        let message =
            format!("the step timed out: all attempts took longer than {seconds} s (total_timeout_sec)");
        let message = match self.context.waits.get(key) {
            Some(wait) => format!("{message}: {wait}"),
            None => message,
        };
        self.settle_failure(key, ErrorCode::TimedOut, message)
    }
}
