//! The document of a switch: its cases in order, and the step that each leads to.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::ROOTS;
use super::compile::{InvalidWorkflow, WrittenStep};
use super::drawing::shortened;
use crate::StepId;
use crate::expression::{Expression, Scope};

/// Cases of one switch.
const CASES_MAX: usize = 100;

/// The cases of a switch as its author wrote them, without what compiles.
pub(super) struct SwitchDocument {
    pub(super) cases: Vec<CaseDocument>,
    pub(super) default: Option<StepId>,
}

/// One case: what to match or to test, and where it leads.
pub(super) struct CaseDocument {
    pub(super) place: String,
    pub(super) when: Vec<Value>,
    pub(super) next: StepId,
}

impl CaseDocument {
    /// What a person reads at the branch.
    pub(super) fn label(&self) -> String {
        match self.when.last() {
            Some(Value::String(text)) => shortened(text),
            Some(value) => shortened(&value.to_string()),
            None => String::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseInput {
    #[serde(alias = "match", alias = "value")]
    when: Value,
    #[serde(alias = "step", alias = "target")]
    next: StepId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchInput {
    cases: Value,
    #[serde(default, alias = "default_step")]
    default: Option<StepId>,
}

impl SwitchDocument {
    /// Reads the `input` of the switch step `step`.
    pub(super) fn read(step: &StepId, input: Option<&Map<String, Value>>) -> Result<Self, InvalidWorkflow> {
        let place = format!("steps.{step}.input");
        let Some(input) = input else {
            return Err(InvalidWorkflow::new(place, "a switch step requires an input with its cases"));
        };
        let SwitchInput { cases, default } = read(&place, Value::Object(input.clone()))?;
        let place = format!("{place}.cases");
        let cases = match cases {
            Value::Array(cases) => {
                let cases = cases.into_iter().enumerate().map(|(at, case)| {
                    let place = format!("{place}[{at}]");
                    let CaseInput { when, next } = read(&place, case)?;
                    Ok(CaseDocument { place, when: vec![when], next })
                });
                cases.collect::<Result<Vec<_>, InvalidWorkflow>>()?
            }
            Value::Object(steps) => {
                let cases = steps.into_iter().map(|(when, next)| {
                    let place = format!("{place}.{when}");
                    Ok(CaseDocument { next: read(&place, next)?, place, when: values_named(when) })
                });
                cases.collect::<Result<Vec<_>, InvalidWorkflow>>()?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let problem = "use a list of {\"when\", \"next\"}, or an object of values and steps";
                return Err(InvalidWorkflow::new(place, problem));
            }
        };
        if !(1..=CASES_MAX).contains(&cases.len()) {
            let problem = format!("{} cases: use 1 to {CASES_MAX}", cases.len());
            return Err(InvalidWorkflow::new(place, problem));
        }
        Ok(Self { cases, default })
    }

    /// The steps that it may lead to, each with its place in the document.
    pub(super) fn targets<'a>(&'a self, step: &'a StepId) -> impl Iterator<Item = (String, &'a StepId)> {
        let cases = self.cases.iter().map(|case| (case.place.clone(), &case.next));
        cases.chain(self.default.iter().map(move |next| (format!("steps.{step}.input.default"), next)))
    }
}

/// What a key of an object can stand for: its text, and the number, boolean or null that it spells.
fn values_named(text: String) -> Vec<Value> {
    let spelled = serde_json::from_str::<Value>(&text).ok();
    let spelled = spelled.filter(|value| value.is_number() || value.is_boolean() || value.is_null());
    spelled.into_iter().chain([Value::String(text)]).collect()
}

fn read<T: DeserializeOwned>(place: &str, value: Value) -> Result<T, InvalidWorkflow> {
    serde_json::from_value(value).map_err(|error| InvalidWorkflow::new(place, error))
}

/// How a switch chooses the step that follows it.
#[derive(Debug, Clone)]
pub struct SwitchRule {
    pub cases: SwitchCases,
    /// Taken if no case is.
    pub default: Option<StepId>,
}

#[derive(Debug, Clone)]
pub enum SwitchCases {
    /// The first whose value equals that of the subject.
    Matched { subject: Expression, cases: Vec<(Value, StepId)> },
    /// The first whose test holds.
    Tested(Vec<(Expression, StepId)>),
}

impl WrittenStep<'_> {
    pub(super) fn switch(self) -> Result<SwitchRule, InvalidWorkflow> {
        let SwitchDocument { cases, default } = SwitchDocument::read(self.id, self.document.input.as_ref())?;
        let cases = if let Some(subject) = &self.document.condition {
            let subject = self.expression("condition", subject)?;
            let cases = cases.into_iter().flat_map(|CaseDocument { when, next, .. }| {
                when.into_iter().map(move |value| (value, next.clone()))
            });
            SwitchCases::Matched { subject, cases: cases.collect() }
        } else {
            let test = |case: CaseDocument| match case.when.as_slice() {
                [Value::String(test)] => {
                    let test = Expression::compile(test, &ROOTS);
                    Ok((test.map_err(|error| InvalidWorkflow::new(case.place, error))?, case.next))
                }
                _ => Err(InvalidWorkflow::new(
                    case.place,
                    "use an expression, or give the step a condition to match",
                )),
            };
            SwitchCases::Tested(cases.into_iter().map(test).collect::<Result<_, _>>()?)
        };
        Ok(SwitchRule { cases, default })
    }
}

impl SwitchRule {
    /// The step to take in `scope`; none if no case applies and there is no default.
    pub fn choose(&self, scope: &dyn Scope) -> Result<Option<&StepId>, String> {
        let chosen = match &self.cases {
            SwitchCases::Matched { subject, cases } => {
                let values = cases.iter().map(|(value, _)| value);
                let found =
                    subject.find_equal(scope, values).map_err(|error| format!("condition: {error}"))?;
                found.map(|at| &cases[at].1)
            }
            SwitchCases::Tested(cases) => {
                let mut chosen = None;
                for ((test, next), at) in cases.iter().zip(0..) {
                    let holds = test.is_true(scope).map_err(|error| format!("cases[{at}]: {error}"))?;
                    if holds {
                        chosen = Some(next);
                        break;
                    }
                }
                chosen
            }
        };
        Ok(chosen.or(self.default.as_ref()))
    }
}
