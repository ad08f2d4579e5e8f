//! The values that a step's expressions and templates can read.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::super::Run;
use super::super::context::Context;
use super::Machine;
use super::rounds::Round;
use crate::expression::{EvaluateError, Expression, Member, Scope, Template};
use crate::step::{StepError, StepRun};
use crate::{StepId, StepKey};

/// The run as one step sees it. Steps are converted one by one on access, because a fan-out may be large.
pub(super) struct RunScope<'a> {
    run: &'a Run,
    stored: &'a Context,
    key: &'a StepKey,
    error: Option<Value>,
    round: Option<Round<'a>>,
}

impl Scope for RunScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "input" => Some(Cow::Borrowed(&self.run.start.input)),
            "item" => self.run.steps.get(self.key)?.item.as_ref().map(Cow::Borrowed),
            "index" => self.key.item.map(|index| Cow::Owned(json!(index))),
            "error" => self.error.as_ref().map(Cow::Borrowed),
            "loop" => {
                let Round { index, .. } = self.round?;
                let last = self.round?.last(self.run);
                Some(Cow::Owned(json!({
                    "index": index, "last": last, "iteration": index + 1, "previous_output": last,
                })))
            }
            "steps" => Some(Cow::Owned(all_steps(self.run))),
            "ctx" => {
                let mut members = context_of(self.run, self.stored.clone());
                members.insert("steps".to_owned(), all_steps(self.run));
                Some(Cow::Owned(Value::Object(members)))
            }
            _ => None,
        }
    }

    fn member(&self, root: &str, member: &str) -> Member<'_> {
        match root {
            "steps" => {
                let step =
                    member.parse::<StepId>().ok().and_then(|step| self.run.steps.get(&StepKey::whole(&step)));
                step.map_or(Member::Missing, |step| Member::Found(Cow::Owned(show(step))))
            }
            "ctx" if member != "steps" => {
                if let Some(found) = self.stored.values.get(member) {
                    return Member::Found(Cow::Borrowed(found));
                }
                let found = context_of(self.run, Context::default()).remove(member);
                found.map_or(Member::Missing, |value| Member::Found(Cow::Owned(value)))
            }
            "loop" if matches!(member, "last" | "previous_output") => {
                let last = self.round.and_then(|round| round.last(self.run));
                last.map_or(Member::Missing, |last| Member::Found(Cow::Borrowed(last)))
            }
            _ => Member::AskRoot,
        }
    }
}

/// The members of `ctx` besides the steps.
pub fn context(run: &Run) -> Value {
    Value::Object(context_of(run, Context::of(run)))
}

fn context_of(run: &Run, stored: Context) -> Map<String, Value> {
    let start = &run.start;
    let members = [
        ("run_id", json!(start.run)),
        ("workflow_id", json!(start.workflow)),
        ("workflow_version", json!(start.workflow_version)),
        ("org_id", json!(start.tenant)),
    ];
    let mut context = stored.values;
    context.extend(members.map(|(name, value)| (name.to_owned(), value)));
    context
}

fn all_steps(run: &Run) -> Value {
    let whole = run.steps.iter().filter(|(key, _)| key.item.is_none());
    Value::Object(whole.map(|(key, step)| (key.to_string(), show(step))).collect::<Map<String, Value>>())
}

fn show(step: &StepRun) -> Value {
    json!({
        "status": step.status,
        "output": step.output,
        "error": step.error.as_ref().map(|error| error.message.as_str()),
        "attempts": step.attempts,
    })
}

impl Machine<'_> {
    pub(super) fn evaluate(&self, key: &StepKey, expression: &Expression) -> Result<Value, EvaluateError> {
        expression.evaluate(&self.scope(key))
    }

    pub(super) fn holds(&self, key: &StepKey, condition: &Expression) -> Result<bool, EvaluateError> {
        condition.is_true(&self.scope(key))
    }

    pub(super) fn render(&self, key: &StepKey, template: &Template) -> Result<Value, EvaluateError> {
        template.render(&self.scope(key)).map(|value| self.with_error(key, value))
    }

    /// The value of a template as it is, without the error that a handler's input gets.
    pub(super) fn evaluate_template(
        &self,
        key: &StepKey,
        template: &Template,
    ) -> Result<Value, EvaluateError> {
        template.render(&self.scope(key))
    }

    pub(super) fn scope<'s>(&'s self, key: &'s StepKey) -> RunScope<'s> {
        let (run, stored) = (&self.run, &self.stored);
        RunScope { run, stored, key, error: self.handled_error(key), round: self.round_of(key) }
    }

    /// Adds the handled error to an error handler's input as `error`, unless the input defines that member itself.
    pub(super) fn with_error(&self, key: &StepKey, value: Value) -> Value {
        match (value, self.handled_error(key)) {
            (Value::Object(mut members), Some(error)) => {
                members.entry("error").or_insert(error);
                Value::Object(members)
            }
            (value, _) => value,
        }
    }

    fn handled_error(&self, key: &StepKey) -> Option<Value> {
        let handles = &self.definition(&key.step)?.handles;
        handles.iter().find_map(|source| {
            let step = self.run.steps.get(&StepKey::whole(source)).filter(|step| step.status.is_failure())?;
            let StepError { code, message, step: _ } = step.error.as_ref()?;
            Some(json!({"step_id": source, "code": code, "message": message, "status": step.status}))
        })
    }
}
