//! Fan-out: one item per element of a list.

use serde_json::{Value, json};

use super::{ITEMS_MAX, Illegal, Machine, PIECE_MAX, size};
use crate::child::OPEN_CHILDREN_MAX;
use crate::history::EventKind;
use crate::step::{FanOut, StepEvent, StepRun, StepStatus};
use crate::workflow::{FanOutRule, StepKind};
use crate::{StepId, StepKey};

impl Machine<'_> {
    /// Creates an item per element and dispatches as many as may run at once.
    pub(super) fn begin_fan_out(&mut self, step: &StepId, rule: &FanOutRule) -> Result<(), Illegal> {
        let parent = StepKey::whole(step);
        let items = match self.evaluate(&parent, &rule.items) {
            Ok(Value::Array(items)) if items.len() <= ITEMS_MAX => Ok(items),
            Ok(Value::Array(items)) => {
                Err(format!("for_each has {} items; the maximum is {ITEMS_MAX}", items.len()))
            }
            Ok(_) => Err("for_each must evaluate to a list".to_owned()),
            Err(error) => Err(format!("for_each: {error}")),
        };
        let items = match items {
            Ok(items) => items,
            Err(problem) => return self.fail_expression(&parent, problem),
        };
        if let Err(problem) = items.iter().try_for_each(|item| self.keep("an item", item)) {
            return self.fail_as_too_large(&parent, problem);
        }
        self.move_step(&parent, StepEvent::Begin)?;
        let total = u32::try_from(items.len()).unwrap_or(u32::MAX);
        self.record(self.event(EventKind::StepForeachStarted, &parent).with_data(json!({"items": total})));
        if items.is_empty() {
            return self.succeed(&parent, Value::Array(Vec::new()), EventKind::StepCompleted);
        }
        self.start_total_timeout(&parent);
        let begun = self.step(&parent);
        begun.fan_out = Some(FanOut { total, next: 0, open: 0, done: 0 });
        begun.pending_items = items;
        self.fill(step)
    }

    /// Continues what the last turn left of the fan-outs.
    pub(super) fn continue_fan_outs(&mut self) -> Result<(), Illegal> {
        let workflow = self.workflow;
        for (id, step) in &workflow.steps {
            if step.kind.fan_out().is_some() && !self.has_ended() && self.status(id) == StepStatus::Running {
                self.fill(id)?;
            }
        }
        Ok(())
    }

    /// Writes the rows of further items, as many as belong into one turn. Returns the first without one.
    fn write_items(&mut self, step: &StepId, total: u32) -> u32 {
        let parent = StepKey::whole(step);
        let pending = self.run.steps.get(&parent).map_or(0, |parent| parent.pending_items.len());
        let count = pending.min(PIECE_MAX.saturating_sub(self.items_written));
        self.continues |= count < pending;
        self.items_written += count;
        let mut first = total - u32::try_from(pending).unwrap_or(total);
        if count > 0 {
            let items: Vec<Value> = self.step(&parent).pending_items.drain(..count).collect();
            for item in items {
                *self.step(&StepKey::item(step, first)) = StepRun { item: Some(item), ..StepRun::default() };
                first += 1;
            }
        }
        first
    }

    /// Dispatches further items up to the limit of parallel items, as many as belong into one turn.
    pub(super) fn fill(&mut self, step: &StepId) -> Result<(), Illegal> {
        let parent = StepKey::whole(step);
        let Some(definition) = self.definition(step) else { return Ok(()) };
        let Some(rule) = definition.kind.fan_out() else { return Ok(()) };
        let is_bounded = matches!(definition.kind, StepKind::Subworkflow(_));
        let most = if is_bounded { OPEN_CHILDREN_MAX } else { u32::MAX };
        let parallel_max = rule.parallel_max.map_or(most, |written| written.get().min(most));
        let found = self.run.steps.get(&parent).filter(|found| !found.status.is_settled());
        let Some(total) = found.and_then(|found| found.fan_out).map(|fan_out| fan_out.total) else {
            return Ok(());
        };
        let unwritten = self.write_items(step, total);
        loop {
            let Some(found) = self.run.steps.get(&parent) else { return Ok(()) };
            let Some(fan_out) = found.fan_out else { return Ok(()) };
            if found.status.is_settled() || fan_out.next >= fan_out.total || fan_out.open >= parallel_max {
                return Ok(());
            }
            if fan_out.next >= unwritten || self.is_full() {
                return Ok(());
            }
            let next = FanOut { next: fan_out.next + 1, open: fan_out.open + 1, ..fan_out };
            self.step(&parent).fan_out = Some(next);
            self.dispatch(&StepKey::item(step, fan_out.next))?;
        }
    }

    /// Dispatches the next item, or completes the step with all outputs in order.
    pub(super) fn item_succeeded(&mut self, step: &StepId) -> Result<(), Illegal> {
        let parent = StepKey::whole(step);
        let Some(fan_out) = self.run.steps.get(&parent).and_then(|parent| parent.fan_out) else {
            return Ok(());
        };
        let fan_out = FanOut { open: fan_out.open.saturating_sub(1), done: fan_out.done + 1, ..fan_out };
        self.step(&parent).fan_out = Some(fan_out);
        if self.is_body(step) {
            // What ends the loop is asked when all results are taken.
            return Ok(());
        }
        if fan_out.done < fan_out.total {
            return self.fill(step);
        }
        let bytes = self.items_of(step).filter_map(|(_, item)| item.output.as_ref()).map(size::size).sum();
        if let Err(problem) = self.keep_bytes("the list of all outputs", bytes) {
            return self.fail_as_too_large(&parent, problem);
        }
        let outputs = self.items_of(step).map(|(_, item)| item.output.clone().unwrap_or_default()).collect();
        self.succeed(&parent, Value::Array(outputs), EventKind::StepCompleted)
    }
}
