//! What a failure leads to: a retry, an error handler, or the end of the run.

use std::time::Duration;

use serde_json::json;

use super::{Illegal, Machine};
use crate::history::EventKind;
use crate::retry::Seed;
use crate::step::{ErrorCode, StepError, StepEvent};
use crate::time::millis;
use crate::workflow::StepRetry;
use crate::{StepId, StepKey};

/// Workers' messages are truncated to keep timelines readable.
const MESSAGE_CHARS_MAX: usize = 4_096;

/// What may follow a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextTry {
    /// Another would fail, too.
    Never,
    AfterBackoff,
    /// Its worker knows when.
    After(Duration),
}

impl NextTry {
    pub(super) fn may_help(is_so: bool) -> Self {
        if is_so { Self::AfterBackoff } else { Self::Never }
    }
}

impl Machine<'_> {
    /// Counts a failed attempt and schedules a retry if one is left.
    pub(super) fn fail_attempt(
        &mut self,
        key: &StepKey,
        code: ErrorCode,
        message: String,
        next: NextTry,
    ) -> Result<(), Illegal> {
        let retry = self.definition(&key.step).map_or(StepRetry::NONE, |step| step.retry);
        let step = self.step(key);
        step.failures += 1;
        let failures = step.failures;
        if next != NextTry::Never && failures <= retry.max {
            let seed = Seed::of_retry(self.run.start.run, key, failures);
            let mut data = json!({
                "failure": failures, "retries_max": retry.max, "code": code.name(),
                "jitter": retry.jitter.name(), "seed": seed.number(),
            });
            let delay = match next {
                NextTry::After(asked) => {
                    data["retry_after_ms"] = json!(millis(asked));
                    // At its deadline the step times out; there is nothing to wait for beyond.
                    self.deadline_of(key).map_or(asked, |deadline| asked.min(deadline.since(self.now)))
                }
                NextTry::AfterBackoff | NextTry::Never => retry.delay(failures, seed),
            };
            data["delay_ms"] = json!(millis(delay));
            let wake_at = self.now + delay;
            let step = self.step(key);
            step.wake_at = Some(wake_at);
            step.deadline_at = None;
            step.error = Some(StepError { code, message: shortened(message.clone()), step: None });
            let event = self.event(EventKind::StepRetryScheduled, key).saying(shortened(message));
            self.record(event.with_data(data));
            return Ok(());
        }
        self.settle_failure(key, code, message)
    }

    /// Ends the step as failed. A failed item also fails its step.
    pub(super) fn settle_failure(
        &mut self,
        key: &StepKey,
        code: ErrorCode,
        message: String,
    ) -> Result<(), Illegal> {
        let (event, kind) = match code {
            ErrorCode::TimedOut => (StepEvent::TimeOut, EventKind::StepTimedOut),
            ErrorCode::PolicyDenied => (StepEvent::Deny, EventKind::StepDenied),
            ErrorCode::Rejected => (StepEvent::Deny, EventKind::StepRejected),
            // The last three end whole runs.
            ErrorCode::Cancelled
            | ErrorCode::QueueTimeout
            | ErrorCode::Superseded
            | ErrorCode::ReplacedBy => (StepEvent::Cancel, EventKind::StepCancelled),
            ErrorCode::WorkerFailed
            | ErrorCode::WorkerLost
            | ErrorCode::OutputInvalid
            | ErrorCode::RunTooLarge
            | ErrorCode::NoCaseMatches
            | ErrorCode::TooFewBranches
            | ErrorCode::LoopExhausted
            | ErrorCode::BudgetExhausted
            | ErrorCode::ChildFailed
            | ErrorCode::WorkflowNotFound
            | ErrorCode::InvalidInput
            | ErrorCode::LimitReached
            | ErrorCode::TooDeep
            | ErrorCode::ExpressionFailed => (StepEvent::Fail, EventKind::StepFailed),
        };
        self.move_step(key, event)?;
        let message = shortened(message);
        let step = self.step(key);
        step.error = Some(StepError { code, message: message.clone(), step: None });
        let status = step.status;
        let settled = self.event(kind, key).with_status(status.name()).saying(message.clone());
        self.record(settled.with_data(json!({"code": code.name()})));
        if key.item.is_some() {
            self.cancel_items(&key.step)?;
            let message = format!("{key}: {message}");
            return self.settle_failure(&StepKey::whole(&key.step), code, message);
        }
        self.has_failure = true;
        if let Some(handler) = self.definition(&key.step).and_then(|step| step.on_error.clone()) {
            let event = self.event(EventKind::StepErrorRedirect, key);
            self.record(event.with_data(json!({"handler": handler.as_str()})));
        }
        self.cancel_owned(&key.step)?;
        self.owned_ended(&key.step)
    }

    /// Cancels the open items of a step.
    pub(super) fn cancel_items(&mut self, step: &StepId) -> Result<(), Illegal> {
        let open: Vec<StepKey> = self
            .items_of(step)
            .filter(|(_, item)| !item.status.is_settled())
            .map(|(key, _)| key.clone())
            .collect();
        for key in open {
            self.revoke_job(&key);
            self.move_step(&key, StepEvent::Cancel)?;
        }
        Ok(())
    }
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => message,
        Some((end, _)) => format!("{}…", &message[..end]),
    }
}
