//! Compiles a workflow document and checks every reference, expression, template and schema.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use interlock_schema::Schema;
use serde_json::Value;

use super::document::{RetryDocument, StepDocument, StepType, WorkflowDocument};
use super::{ROOTS, STEPS_MAX, graph};
use crate::expression::{Expression, Template};
use crate::meta::{JobMeta, TAGS_MAX};
use crate::retry::Backoff;
use crate::{StepId, Topic, WorkflowId};

/// One year. A longer wait is probably a wrong unit.
const SECONDS_MAX: f64 = 31_536_000.0;
const RETRIES_MAX: u32 = 1_000;
const NAME_CHARS_MAX: usize = 256;
const DESCRIPTION_CHARS_MAX: usize = 8_192;

/// One compiled version of a workflow.
#[derive(Debug, Clone)]
pub struct Workflow {
    pub id: WorkflowId,
    pub version: u32,
    pub timeout: Option<Duration>,
    pub input_schema: Option<Schema>,
    pub steps: BTreeMap<StepId, Step>,
    /// Topological order.
    pub order: Vec<StepId>,
    /// The steps that no other step depends on. Their outputs form the run's output.
    pub leaves: Vec<StepId>,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub kind: StepKind,
    pub depends_on: BTreeSet<StepId>,
    /// If it is false, the step is skipped.
    pub condition: Option<Expression>,
    pub on_error: Option<StepId>,
    /// The steps whose failure starts this one. If not empty, the step runs only when one of them failed.
    pub handles: BTreeSet<StepId>,
    pub retries_max: u32,
    pub backoff: Backoff,
    pub timeout: Option<Duration>,
    pub output_schema: Option<Schema>,
    pub meta: JobMeta,
}

#[derive(Debug, Clone)]
pub enum StepKind {
    Worker { topic: Topic, input: Option<Template>, fan_out: Option<FanOutRule> },
    Approval { input: Option<Template> },
    Condition { test: Expression },
    Delay(Delay),
    Transform { input: Template },
    Notify { input: Template },
}

impl StepKind {
    /// The topic of its jobs, if it has any.
    #[must_use]
    pub fn topic(&self) -> Option<&Topic> {
        match self {
            Self::Worker { topic, .. } => Some(topic),
            Self::Approval { .. }
            | Self::Condition { .. }
            | Self::Delay(_)
            | Self::Transform { .. }
            | Self::Notify { .. } => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct FanOutRule {
    pub items: Expression,
    pub parallel_max: Option<NonZeroU32>,
}

#[derive(Debug, Clone)]
pub enum Delay {
    For(Duration),
    Until(Template),
}

/// Why a workflow document is invalid, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct InvalidWorkflow {
    pub place: String,
    pub problem: String,
}

impl InvalidWorkflow {
    pub(super) fn new(place: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self { place: place.into(), problem: problem.to_string() }
    }
}

impl Workflow {
    pub fn compile(
        id: WorkflowId,
        version: u32,
        document: &WorkflowDocument,
    ) -> Result<Self, InvalidWorkflow> {
        check_texts(document)?;
        if !(1..=STEPS_MAX).contains(&document.steps.len()) {
            let problem = format!("{} steps: use 1 to {STEPS_MAX}", document.steps.len());
            return Err(InvalidWorkflow::new("steps", problem));
        }
        let order = graph::order(&document.steps)?;
        let mut steps = BTreeMap::new();
        for (step, written) in &document.steps {
            steps.insert(step.clone(), compile_step(&id, step, written, &document.steps)?);
        }
        Ok(Self {
            timeout: seconds("timeout_sec", document.timeout_sec)?,
            input_schema: schema("input_schema", document.input_schema.as_ref())?,
            id,
            version,
            steps,
            leaves: leaves(&document.steps),
            order,
        })
    }
}

fn leaves(steps: &BTreeMap<StepId, StepDocument>) -> Vec<StepId> {
    let awaited: BTreeSet<&StepId> = steps.values().flat_map(|step| &step.depends_on).collect();
    steps.keys().filter(|step| !awaited.contains(step)).cloned().collect()
}

fn check_texts(document: &WorkflowDocument) -> Result<(), InvalidWorkflow> {
    if !(1..=NAME_CHARS_MAX).contains(&document.name.chars().count()) {
        return Err(InvalidWorkflow::new("name", format!("use 1 to {NAME_CHARS_MAX} characters")));
    }
    if document.description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        return Err(InvalidWorkflow::new(
            "description",
            format!("use at most {DESCRIPTION_CHARS_MAX} characters"),
        ));
    }
    Ok(())
}

fn compile_step(
    workflow: &WorkflowId,
    id: &StepId,
    written: &StepDocument,
    all: &BTreeMap<StepId, StepDocument>,
) -> Result<Step, InvalidWorkflow> {
    let place = |field: &str| format!("steps.{id}.{field}");
    reject_misplaced_fields(id, written)?;
    let handles =
        all.iter().filter(|(_, other)| other.on_error.as_ref() == Some(id)).map(|(id, _)| id.clone());
    let (retries_max, backoff) = retry(&place("retry"), written.retry.as_ref())?;
    Ok(Step {
        kind: compile_kind(workflow, id, written)?,
        depends_on: written.depends_on.iter().cloned().collect(),
        // The field of a condition step is its test, not a condition for running it.
        condition: match written.kind {
            StepType::Condition => None,
            StepType::Worker
            | StepType::Approval
            | StepType::Delay
            | StepType::Transform
            | StepType::Notify => {
                written.condition.as_deref().map(|it| expression(&place("condition"), it)).transpose()?
            }
        },
        on_error: written.on_error.clone(),
        handles: handles.collect(),
        retries_max,
        backoff,
        timeout: seconds(&place("timeout_sec"), written.timeout_sec)?,
        output_schema: schema(&place("output_schema"), written.output_schema.as_ref())?,
        meta: meta(&place("meta"), written.meta.as_ref())?,
    })
}

/// Rejects fields that the step type does not use, so that a misunderstanding shows when the workflow is saved.
fn reject_misplaced_fields(id: &StepId, written: &StepDocument) -> Result<(), InvalidWorkflow> {
    let kind = written.kind;
    let is_worker = kind == StepType::Worker;
    let takes_time = matches!(kind, StepType::Worker | StepType::Approval);
    let fields = [
        ("topic", written.topic.is_some(), is_worker),
        ("for_each", written.for_each.is_some(), is_worker),
        ("max_parallel", written.max_parallel.is_some(), is_worker && written.for_each.is_some()),
        ("meta", written.meta.is_some(), is_worker),
        ("retry", written.retry.is_some(), is_worker),
        ("timeout_sec", written.timeout_sec.is_some(), takes_time),
        ("delay_sec", written.delay_sec.is_some(), kind == StepType::Delay),
        ("delay_until", written.delay_until.is_some(), kind == StepType::Delay),
        ("input", written.input.is_some(), !matches!(kind, StepType::Condition | StepType::Delay)),
        (
            "output_schema",
            written.output_schema.is_some(),
            matches!(kind, StepType::Worker | StepType::Transform),
        ),
    ];
    match fields.into_iter().find(|(_, present, allowed)| *present && !*allowed) {
        None => Ok(()),
        Some((field, ..)) => {
            let problem = format!("a {} step does not support this field", kind.name());
            Err(InvalidWorkflow::new(format!("steps.{id}.{field}"), problem))
        }
    }
}

fn compile_kind(
    workflow: &WorkflowId,
    id: &StepId,
    written: &StepDocument,
) -> Result<StepKind, InvalidWorkflow> {
    let place = |field: &str| format!("steps.{id}.{field}");
    let input = match &written.input {
        None => None,
        Some(input) => Some(template(&place("input"), &Value::Object(input.clone()))?),
    };
    match written.kind {
        StepType::Worker => Ok(StepKind::Worker {
            topic: match &written.topic {
                Some(topic) => topic.clone(),
                None => format!("job.workflow.{workflow}")
                    .parse()
                    .map_err(|it| InvalidWorkflow::new(place("topic"), it))?,
            },
            input,
            fan_out: fan_out(id, written)?,
        }),
        StepType::Approval => Ok(StepKind::Approval { input }),
        StepType::Condition => match &written.condition {
            Some(test) => Ok(StepKind::Condition { test: expression(&place("condition"), test)? }),
            None => Err(InvalidWorkflow::new(place("condition"), "a condition step requires an expression")),
        },
        StepType::Delay => delay(id, written).map(StepKind::Delay),
        StepType::Transform => match input {
            Some(input) => Ok(StepKind::Transform { input }),
            None => Err(InvalidWorkflow::new(place("input"), "a transform step requires an input")),
        },
        StepType::Notify => match input {
            Some(input) => Ok(StepKind::Notify { input }),
            None => {
                Err(InvalidWorkflow::new(place("input"), "a notify step requires an input with its message"))
            }
        },
    }
}

fn fan_out(id: &StepId, written: &StepDocument) -> Result<Option<FanOutRule>, InvalidWorkflow> {
    let Some(items) = &written.for_each else { return Ok(None) };
    let parallel_max = match written.max_parallel.map(NonZeroU32::new) {
        Some(None) => {
            return Err(InvalidWorkflow::new(
                format!("steps.{id}.max_parallel"),
                "use at least 1, or omit it",
            ));
        }
        Some(bound) => bound,
        None => None,
    };
    Ok(Some(FanOutRule { items: expression(&format!("steps.{id}.for_each"), items)?, parallel_max }))
}

fn delay(id: &StepId, written: &StepDocument) -> Result<Delay, InvalidWorkflow> {
    let place = |field: &str| format!("steps.{id}.{field}");
    match (written.delay_sec, &written.delay_until) {
        (Some(_), Some(_)) => {
            Err(InvalidWorkflow::new(place("delay_until"), "use delay_sec or delay_until, not both"))
        }
        (None, None) => {
            Err(InvalidWorkflow::new(place("delay_sec"), "a delay step requires delay_sec or delay_until"))
        }
        (Some(_), None) => {
            Ok(Delay::For(seconds(&place("delay_sec"), written.delay_sec)?.unwrap_or_default()))
        }
        (None, Some(until)) => {
            if !until.contains("${") {
                until
                    .parse::<crate::Timestamp>()
                    .map_err(|it| InvalidWorkflow::new(place("delay_until"), it))?;
            }
            Ok(Delay::Until(template(&place("delay_until"), &Value::String(until.clone()))?))
        }
    }
}

fn retry(place: &str, written: Option<&RetryDocument>) -> Result<(u32, Backoff), InvalidWorkflow> {
    let none =
        RetryDocument { max_retries: 0, initial_backoff_sec: 0.0, multiplier: 1.0, max_backoff_sec: 0.0 };
    let written = written.unwrap_or(&none);
    if written.max_retries > RETRIES_MAX {
        return Err(InvalidWorkflow::new(
            format!("{place}.max_retries"),
            format!("use at most {RETRIES_MAX}"),
        ));
    }
    if !(written.multiplier.is_finite() && (1.0..=100.0).contains(&written.multiplier)) {
        return Err(InvalidWorkflow::new(format!("{place}.multiplier"), "use a number from 1 to 100"));
    }
    let initial = seconds(&format!("{place}.initial_backoff_sec"), Some(written.initial_backoff_sec))?;
    let cap = seconds(&format!("{place}.max_backoff_sec"), Some(written.max_backoff_sec))?;
    let backoff = Backoff {
        initial: initial.unwrap_or_default(),
        multiplier: written.multiplier,
        cap: cap.unwrap_or_default(),
    };
    Ok((written.max_retries, backoff))
}

fn meta(place: &str, written: Option<&JobMeta>) -> Result<JobMeta, InvalidWorkflow> {
    let Some(written) = written else { return Ok(JobMeta::default()) };
    for (field, tags) in [("risk_tags", &written.risk_tags), ("requires", &written.requires)] {
        if tags.len() > TAGS_MAX {
            return Err(InvalidWorkflow::new(
                format!("{place}.{field}"),
                format!("use at most {TAGS_MAX} tags"),
            ));
        }
    }
    Ok(written.clone())
}

/// A number of seconds. Zero counts as absent.
fn seconds(place: &str, written: Option<f64>) -> Result<Option<Duration>, InvalidWorkflow> {
    match written {
        None => Ok(None),
        Some(seconds) if seconds.is_finite() && (0.0..=SECONDS_MAX).contains(&seconds) => {
            Ok(Some(Duration::from_secs_f64(seconds)).filter(|it| !it.is_zero()))
        }
        Some(_) => {
            Err(InvalidWorkflow::new(place, format!("use a number of seconds from 0 to {SECONDS_MAX}")))
        }
    }
}

fn schema(place: &str, written: Option<&Value>) -> Result<Option<Schema>, InvalidWorkflow> {
    written.map(Schema::compile).transpose().map_err(|error| InvalidWorkflow::new(place, error))
}

fn expression(place: &str, source: &str) -> Result<Expression, InvalidWorkflow> {
    Expression::compile(source, &ROOTS).map_err(|error| InvalidWorkflow::new(place, error))
}

fn template(place: &str, value: &Value) -> Result<Template, InvalidWorkflow> {
    Template::compile(value, &ROOTS).map_err(|error| InvalidWorkflow::new(place, error))
}
