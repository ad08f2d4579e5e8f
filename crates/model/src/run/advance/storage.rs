//! Storage steps: what they do to the context of the run.

use serde_json::Value;

use super::super::context::{CONTEXT_BYTES_MAX, Context, ContextChange, ContextPath};
use super::{Illegal, Machine, size};
use crate::StepKey;
use crate::history::EventKind;
use crate::step::StepEvent;
use crate::workflow::{StorageOperation, StorageRule};

impl Machine<'_> {
    /// Reads, writes or deletes a value. The change is part of the row of the step, so that it is made once.
    pub(super) fn store(&mut self, key: &StepKey, rule: &StorageRule) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Begin)?;
        let mut stored = self.stored.clone();
        let (path, output) = match self.operate(key, rule, &mut stored) {
            Ok(done) => done,
            Err(problem) => return self.fail_expression(key, problem),
        };
        if let Err(problem) = bound(&stored) {
            return self.fail_as_too_large(key, problem);
        }
        if let Err(problem) = self.keep_rendered("the value", &output) {
            return self.fail_as_too_large(key, problem);
        }
        if !matches!(rule.operation, StorageOperation::Read) {
            stored.changes += 1;
            let deletes = matches!(rule.operation, StorageOperation::Delete);
            self.step(key).context_change = Some(ContextChange { number: stored.changes, path, deletes });
            self.stored = stored;
        }
        self.succeed(key, output, EventKind::StepStorageCompleted)
    }

    /// Keeps the output of a step in the context as well, if its document says where. Its items are parts of that output.
    pub(super) fn keep_in_context(&mut self, key: &StepKey, output: &Value) -> Result<(), String> {
        let path = self.definition(&key.step).and_then(|step| step.output_path.clone());
        let Some(path) = path.filter(|_| key.item.is_none()) else { return Ok(()) };
        let mut stored = self.stored.clone();
        stored.write(&path, output.clone()).map_err(|problem| format!("output_path: {problem}"))?;
        bound(&stored)?;
        stored.changes += 1;
        let change = ContextChange { number: stored.changes, path, deletes: false };
        self.step(key).context_change = Some(change);
        self.stored = stored;
        Ok(())
    }

    /// Where the step operates, and its output: the value that is there, that it writes, or that it removes.
    fn operate(
        &self,
        key: &StepKey,
        rule: &StorageRule,
        stored: &mut Context,
    ) -> Result<(ContextPath, Value), String> {
        let path = self.evaluate_template(key, &rule.key).map_err(|error| format!("key: {error}"))?;
        let Value::String(path) = path else { return Err(format!("key: {path} is not a path")) };
        let path: ContextPath = path.parse().map_err(|error| format!("key: {error}"))?;
        let output = match &rule.operation {
            StorageOperation::Read => stored.read(&path),
            StorageOperation::Write { value } => {
                let value = self.evaluate_template(key, value).map_err(|error| format!("value: {error}"))?;
                stored.write(&path, value.clone()).map_err(|problem| format!("key: {problem}"))?;
                value
            }
            StorageOperation::Delete => stored.delete(&path),
        };
        Ok((path, output))
    }
}

fn bound(stored: &Context) -> Result<(), String> {
    let bytes: u64 = stored.values.iter().map(|(name, value)| name.len() as u64 + size::size(value)).sum();
    if bytes <= CONTEXT_BYTES_MAX {
        return Ok(());
    }
    Err(format!("the context would have about {bytes} bytes: a run stores at most {CONTEXT_BYTES_MAX}"))
}
