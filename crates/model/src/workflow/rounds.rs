//! The document of a loop: its body, what ends it, and how many rounds it makes at most.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::compile::{InvalidWorkflow, WrittenStep};
use crate::StepId;
use crate::expression::Expression;

/// Rounds of one loop. A turn reads the rows of all of them.
pub const ROUNDS_MAX: u32 = 1_000;

/// When a loop makes another round.
#[derive(Debug, Clone)]
pub struct LoopRule {
    pub body: StepId,
    /// Asked before each round: if it is false, the loop ends.
    pub goes_on: Option<Expression>,
    /// Asked after each round: if it is true, the loop ends.
    pub until: Option<Expression>,
    /// How many rounds it makes. If absent, `rounds_max`.
    pub count: Option<Expression>,
    pub rounds_max: u32,
}

impl LoopRule {
    /// Whether it fails if it has made all of its rounds: it has not come to the end that it was to come to.
    pub fn is_exhausted_by_rounds(&self) -> bool {
        self.count.is_none() && (self.goes_on.is_some() || self.until.is_some())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopInput {
    #[serde(alias = "body_step")]
    body: StepId,
    #[serde(default, rename = "while")]
    goes_on: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    count: Option<CountInput>,
    #[serde(default)]
    max_iterations: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CountInput {
    Number(u32),
    Text(String),
}

/// A loop as its author wrote it, without what compiles.
pub(super) struct LoopDocument {
    /// Where the body is named.
    pub(super) place: String,
    pub(super) body: StepId,
    goes_on: Option<String>,
    until: Option<String>,
    count: Option<String>,
    rounds_max: u32,
}

impl LoopDocument {
    /// Reads the `input` of the loop step `step`.
    pub(super) fn read(step: &StepId, input: Option<&Map<String, Value>>) -> Result<Self, InvalidWorkflow> {
        let place = format!("steps.{step}.input");
        let Some(input) = input else {
            return Err(InvalidWorkflow::new(place, "a loop step requires an input with its body"));
        };
        let read = serde_json::from_value(Value::Object(input.clone()));
        let LoopInput { body, goes_on, until, count, max_iterations } =
            read.map_err(|error| InvalidWorkflow::new(&place, error))?;
        let (field, bound) = match (&count, max_iterations) {
            (Some(CountInput::Number(count)), most) if most.is_none_or(|most| *count <= most) => {
                ("count", Some(*count))
            }
            (Some(CountInput::Number(_)), _) => {
                let problem = "the loop makes more rounds than its max_iterations allow";
                return Err(InvalidWorkflow::new(format!("{place}.count"), problem));
            }
            (Some(CountInput::Text(_)) | None, bound) => ("max_iterations", bound),
        };
        let Some(rounds_max) = bound.filter(|bound| (1..=ROUNDS_MAX).contains(bound)) else {
            let problem = format!("a loop requires a bound: use 1 to {ROUNDS_MAX}");
            return Err(InvalidWorkflow::new(format!("{place}.{field}"), problem));
        };
        let count = count.map(|count| match count {
            CountInput::Number(count) => count.to_string(),
            CountInput::Text(text) => text,
        });
        Ok(Self { place: format!("{place}.body"), body, goes_on, until, count, rounds_max })
    }
}

impl WrittenStep<'_> {
    pub(super) fn rounds(self) -> Result<LoopRule, InvalidWorkflow> {
        let LoopDocument { place: _, body, goes_on, until, count, rounds_max } =
            LoopDocument::read(self.id, self.document.input.as_ref())?;
        let goes_on = match (&self.document.condition, goes_on) {
            (Some(_), Some(_)) => {
                let place = format!("steps.{}.input.while", self.id);
                return Err(InvalidWorkflow::new(place, "the step has a condition, which means the same"));
            }
            (Some(condition), None) => Some(self.expression("condition", condition)?),
            (None, goes_on) => goes_on.map(|it| self.expression("input.while", &it)).transpose()?,
        };
        Ok(LoopRule {
            body,
            goes_on,
            until: until.map(|it| self.expression("input.until", &it)).transpose()?,
            count: count.map(|it| self.expression("input.count", &it)).transpose()?,
            rounds_max,
        })
    }
}
