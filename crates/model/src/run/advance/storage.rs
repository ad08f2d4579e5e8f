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
        let bytes: u64 =
            stored.values.iter().map(|(name, value)| name.len() as u64 + size::size(value)).sum();
        if bytes > CONTEXT_BYTES_MAX {
            let problem = format!(
                "the context would have about {bytes} bytes: a run stores at most {CONTEXT_BYTES_MAX}"
            );
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
