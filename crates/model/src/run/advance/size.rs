//! How much data a turn may render, and a run may hold.

use serde_json::Value;

use super::super::{InboxEvent, Run};
use super::{Illegal, Machine};
use crate::StepKey;
use crate::child::ChildOutcome;
use crate::history::Event;
use crate::job::JobOutcome;
use crate::step::ErrorCode;
use crate::workflow::Workflow;

/// Approximate bytes of the separators, quotes and brackets of one value.
const OVERHEAD_BYTES: u64 = 2;

/// Approximate bytes of the time, the kind and the status of one event.
const EVENT_BYTES: u64 = 64;

/// Approximate bytes of a value as compact JSON.
pub(crate) fn size(value: &Value) -> u64 {
    let inner = match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(number) => number.as_str().len() as u64,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() as u64 + OVERHEAD_BYTES + size(value)).sum()
        }
    };
    inner + OVERHEAD_BYTES
}

/// Approximate bytes of an event of the timeline as compact JSON.
pub(super) fn event_size(event: &Event) -> u64 {
    let step = event.step.as_ref().map_or(0, |step| step.step.as_str().len());
    // The id of a job names its run and its step again.
    let names = if event.job.is_some() { 2 * step + 64 } else { step };
    let message = event.message.as_ref().map_or(0, String::len);
    EVENT_BYTES + (names + message) as u64 + event.data.as_ref().map_or(0, size)
}

/// The most steps, and the most bytes of a run and of its inbox, of a small turn.
const SMALL_STEPS_MAX: usize = 64;
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// Whether a turn costs so little that it may be computed in passing: few steps, little data, and no schema to check.
pub fn is_small_turn(workflow: &Workflow, run: &Run, inbox: &[InboxEvent]) -> bool {
    let bytes = inbox.iter().map(|event| match event {
        InboxEvent::Job { outcome: JobOutcome::Completed { output, .. }, .. }
        | InboxEvent::Child { outcome: ChildOutcome::Succeeded { output }, .. } => size(output),
        InboxEvent::Event(event) => size(&event.data),
        // Their texts are bounded.
        InboxEvent::Job { .. }
        | InboxEvent::Child { .. }
        | InboxEvent::Approval { .. }
        | InboxEvent::ApprovalAsked { .. }
        | InboxEvent::Cancel { .. }
        | InboxEvent::Granted { .. }
        | InboxEvent::Replaced { .. }
        | InboxEvent::Retry { .. } => 0,
    });
    // The first turn has yet to count what the run begins with.
    let held = run.head.held_bytes.max(size(&run.start.input));
    workflow.steps.len() <= SMALL_STEPS_MAX
        && run.steps.len() <= SMALL_STEPS_MAX
        && inbox.len() <= SMALL_STEPS_MAX
        && workflow.steps.values().all(|step| step.input_schema.is_none() && step.output_schema.is_none())
        && held + bytes.sum::<u64>() <= SMALL_BYTES_MAX
}

impl Machine<'_> {
    /// Counts what the run begins with: its input, and what a rerun has copied. Returns why that is too much.
    pub(super) fn keep_beginning(&mut self) -> Result<(), String> {
        let copied = self.run.steps.values().filter_map(|step| step.output.as_ref()).map(size).sum();
        let input = size(&self.run.start.input);
        self.keep_bytes("the input of the run", input)?;
        self.keep_bytes("what the rerun takes over", copied)
    }

    /// Counts a value that this turn has rendered and the run keeps. Returns why that is too much.
    pub(super) fn keep_rendered(&mut self, what: &str, value: &Value) -> Result<(), String> {
        let bytes = size(value);
        // A value that is too much is dropped and does not count: a handler of its error may still run.
        let rendered = self.rendered_bytes + bytes;
        let most = self.context.bounds.turn_bytes_max;
        if rendered > most {
            return Err(format!(
                "{what} has about {bytes} bytes: one turn of the run renders more than {most} in all"
            ));
        }
        self.keep_bytes(what, bytes)?;
        self.rendered_bytes = rendered;
        Ok(())
    }

    /// Counts a value that the run keeps. Returns why that is too much.
    pub(super) fn keep(&mut self, what: &str, value: &Value) -> Result<(), String> {
        self.keep_bytes(what, size(value))
    }

    pub(super) fn keep_bytes(&mut self, what: &str, bytes: u64) -> Result<(), String> {
        let held = self.run.head.held_bytes + bytes;
        let most = self.context.bounds.run_bytes_max;
        if held > most {
            return Err(format!("{what} has about {bytes} bytes: the run holds more than {most} in all"));
        }
        self.run.head.held_bytes = held;
        Ok(())
    }

    pub(super) fn fail_as_too_large(&mut self, key: &StepKey, problem: String) -> Result<(), Illegal> {
        self.settle_failure(key, ErrorCode::RunTooLarge, problem)?;
        // What the failure revoked before it was written takes no space from the handler.
        let opened = self.opened_bytes();
        self.effects.drop_undone();
        let freed = opened.saturating_sub(self.opened_bytes());
        self.rendered_bytes = self.rendered_bytes.saturating_sub(freed);
        self.run.head.held_bytes = self.run.head.held_bytes.saturating_sub(freed);
        Ok(())
    }

    /// Bytes of the inputs of all jobs, approvals and children that this turn opens.
    fn opened_bytes(&self) -> u64 {
        let jobs = self.effects.dispatched.iter().map(|job| &job.input);
        let approvals = self.effects.approvals_opened.iter().map(|approval| &approval.input);
        let children = self.effects.children.started.iter().map(|child| &child.input);
        jobs.chain(approvals).chain(children).map(size).sum()
    }
}
