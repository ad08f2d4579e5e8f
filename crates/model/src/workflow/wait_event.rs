//! The document of a step that waits for an event: its name, to which key it is sent, and which one is taken.

use serde_json::Value;

use super::ROOTS;
use super::compile::{InvalidWorkflow, WrittenStep};
use crate::EventName;
use crate::expression::{Expression, Template};

/// What an expression can read that chooses an event.
const EVENT_ROOTS: [&str; 8] = {
    let [a, b, c, d, e, f, g] = ROOTS;
    [a, b, c, d, e, f, g, "event"]
};

/// Which event a step takes.
#[derive(Debug, Clone)]
pub struct EventRule {
    pub name: EventName,
    /// The step also takes what is sent to this key.
    pub key: Option<Template>,
    /// The event must make it true.
    pub condition: Option<Expression>,
}

impl WrittenStep<'_> {
    pub(super) fn event(self) -> Result<EventRule, InvalidWorkflow> {
        let Some(event) = &self.document.event else {
            let place = format!("steps.{}.event", self.id);
            return Err(InvalidWorkflow::new(place, "a wait_event step requires an event with a name"));
        };
        let key = event.key.as_ref().map(|key| self.template("event.key", &Value::String(key.clone())));
        let condition = event.condition.as_ref().map(|source| {
            let compiled = Expression::compile(source, &EVENT_ROOTS);
            compiled.map_err(|error| InvalidWorkflow::new(format!("steps.{}.event.match", self.id), error))
        });
        Ok(EventRule { name: event.name.clone(), key: key.transpose()?, condition: condition.transpose()? })
    }
}
