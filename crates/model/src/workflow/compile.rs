//! Compiles a workflow document and checks every reference, expression, template and schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::num::NonZeroU32;
use std::time::Duration;

use interlock_schema::Schema;
use serde_json::Value;

use super::document::{StepBudgetDocument, StepDocument, StepType, WorkflowDocument};
use super::graph::{Graph, Route};
use super::kind::{Delay, FanOutRule, StepKind};
use super::origin::{check_provenance, context_path, is_given, path};
use super::tries::StepRetry;
use super::{ROOTS, STEPS_MAX};
use crate::budget::{Amount, StepBudget};
use crate::expression::{Expression, Template};
use crate::meta::JobMeta;
use crate::run::context::ContextPath;
use crate::{StepId, Topic, WorkflowId};

/// One year. A longer wait is probably a wrong unit.
const SECONDS_MAX: f64 = 31_536_000.0;
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
    /// The step whose branch or body it is: it begins while that one runs, and ends with it at the latest.
    pub owner: Option<StepId>,
    /// The branches of switches through which it is reached.
    pub routes: Vec<Route>,
    /// If it is false, the step is skipped.
    pub condition: Option<Expression>,
    pub on_error: Option<StepId>,
    /// The steps whose failure starts this one. If not empty, the step runs only when one of them failed.
    pub handles: BTreeSet<StepId>,
    pub retry: StepRetry,
    /// Of one attempt.
    pub timeout: Option<Duration>,
    pub input_schema: Option<Schema>,
    /// The part of a result that is the output.
    pub result_path: Vec<String>,
    /// Where in the context its output is kept besides.
    pub output_path: Option<ContextPath>,
    /// Of the wait for a worker, for each attempt.
    pub queue_timeout: Option<Duration>,
    /// Of all attempts.
    pub total_timeout: Option<Duration>,
    pub output_schema: Option<Schema>,
    pub meta: JobMeta,
    /// What each of its jobs reserves.
    pub budget: Option<StepBudget>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct InvalidWorkflow {
    pub place: String,
    pub problem: String,
}

impl InvalidWorkflow {
    pub(super) fn new(place: impl Into<String>, problem: impl Display) -> Self {
        Self { place: place.into(), problem: problem.to_string() }
    }
}

/// The result with the place of its error.
pub(super) fn at<T>(place: impl Into<String>, result: Result<T, impl Display>) -> Result<T, InvalidWorkflow> {
    result.map_err(|problem| InvalidWorkflow::new(place, problem))
}

pub(super) fn require(is_met: bool, problem: String) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(problem) }
}

impl Workflow {
    pub fn compile(
        id: WorkflowId,
        version: u32,
        document: &WorkflowDocument,
    ) -> Result<Self, InvalidWorkflow> {
        let WorkflowDocument { name, description, steps, .. } = document;
        let is_name = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
        at("name", require(is_name, format!("use 1 to {NAME_CHARS_MAX} characters")))?;
        let is_short = description.as_ref().is_none_or(|text| text.chars().count() <= DESCRIPTION_CHARS_MAX);
        at("description", require(is_short, format!("use at most {DESCRIPTION_CHARS_MAX} characters")))?;
        check_provenance(document)?;
        let count = steps.len();
        at(
            "steps",
            require((1..=STEPS_MAX).contains(&count), format!("{count} steps: use 1 to {STEPS_MAX}")),
        )?;
        let mut graph = Graph::of(steps)?;
        let schemas = steps.values().flat_map(|step| [&step.input_schema, &step.output_schema]).flatten();
        let schemas = schemas.chain(&document.input_schema);
        let patterns = schemas.map(interlock_schema::patterns).sum();
        let compiled = steps.iter().map(|(step, document)| {
            let handles = steps.iter().filter(|(_, other)| other.on_error.as_ref() == Some(step));
            let handles = handles.map(|(other, _)| other.clone()).collect();
            let written = WrittenStep { id: step, document, patterns };
            Ok((step.clone(), written.compile(&id, &mut graph, handles)?))
        });
        let compiled: BTreeMap<StepId, Step> = compiled.collect::<Result<_, _>>()?;
        let awaited: BTreeSet<&StepId> = compiled.values().flat_map(|step| &step.depends_on).collect();
        let leaves = compiled.iter().filter(|(id, step)| step.owner.is_none() && !awaited.contains(id));
        let leaves = leaves.map(|(id, _)| id.clone()).collect();
        Ok(Self {
            timeout: at("timeout_sec", seconds(document.timeout_sec))?,
            input_schema: at("input_schema", schema(document.input_schema.as_ref(), patterns))?,
            id,
            version,
            steps: compiled,
            leaves,
            order: graph.order,
        })
    }
}

/// A step as its author wrote it.
#[derive(Clone, Copy)]
pub(super) struct WrittenStep<'a> {
    pub(super) id: &'a StepId,
    pub(super) document: &'a StepDocument,
    /// Of all schemas of the workflow.
    patterns: usize,
}

impl WrittenStep<'_> {
    /// The result with the place of its error.
    pub(super) fn at<T>(self, field: &str, result: Result<T, impl Display>) -> Result<T, InvalidWorkflow> {
        at(format!("steps.{}.{field}", self.id), result)
    }

    pub(super) fn expression(self, field: &str, source: &str) -> Result<Expression, InvalidWorkflow> {
        self.at(field, Expression::compile(source, &ROOTS))
    }

    pub(super) fn template(self, field: &str, value: &Value) -> Result<Template, InvalidWorkflow> {
        self.at(field, Template::compile(value, &ROOTS))
    }

    fn compile(
        self,
        workflow: &WorkflowId,
        graph: &mut Graph,
        handles: BTreeSet<StepId>,
    ) -> Result<Step, InvalidWorkflow> {
        self.reject_misplaced_fields()?;
        self.check_origin()?;
        let document = self.document;
        // The field of a condition step is its test, that of a switch its subject, and that of a loop what it goes on by:
        // not a condition for running it.
        let is_own = matches!(document.kind, StepType::Condition | StepType::Switch | StepType::Loop);
        let condition = document.condition.as_ref().filter(|_| !is_own);
        Ok(Step {
            kind: self.kind(workflow)?,
            depends_on: graph.follows.remove(self.id).unwrap_or_default(),
            owner: graph.owners.remove(self.id),
            routes: graph.routes.remove(self.id).unwrap_or_default(),
            condition: condition.map(|it| self.expression("condition", it)).transpose()?,
            on_error: document.on_error.clone(),
            handles,
            retry: self.retry()?,
            timeout: self.at("timeout_sec", seconds(document.timeout_sec))?,
            input_schema: self.at("input_schema", schema(document.input_schema.as_ref(), self.patterns))?,
            result_path: self.at("result_data_path", path(document.result_data_path.as_deref()))?,
            output_path: self.at("output_path", context_path(document.output_path.as_deref()))?,
            queue_timeout: self.queue_timeout()?,
            total_timeout: self.at("total_timeout_sec", seconds(document.total_timeout_sec))?,
            output_schema: self
                .at("output_schema", schema(document.output_schema.as_ref(), self.patterns))?,
            meta: self.meta()?,
            budget: self.budget()?,
        })
    }

    /// Rejects fields that the step type does not use, so that a misunderstanding shows when the workflow is saved.
    fn reject_misplaced_fields(self) -> Result<(), InvalidWorkflow> {
        let (written, kind) = (self.document, self.document.kind);
        let is_worker = kind.is_worker();
        let is_tried = is_worker || kind == StepType::Subworkflow;
        let takes_time = is_tried
            || matches!(kind, StepType::Approval | StepType::Parallel | StepType::Loop | StepType::WaitEvent);
        let has_many = kind == StepType::Parallel || (is_tried && written.for_each.is_some());
        let has_output = is_tried || matches!(kind, StepType::Transform | StepType::WaitEvent);
        let has_input = !matches!(kind, StepType::Condition | StepType::Delay | StepType::WaitEvent);
        let fields = [
            ("topic", written.topic.is_some(), is_worker),
            ("for_each", written.for_each.is_some(), is_tried),
            ("max_parallel", written.max_parallel.is_some(), has_many),
            ("meta", written.meta.is_some(), is_worker),
            ("budget", written.budget.is_some(), is_worker),
            ("retry", written.retry.is_some(), is_tried),
            ("timeout_sec", written.timeout_sec.is_some(), takes_time),
            ("queue_timeout_sec", written.queue_timeout_sec.is_some(), is_worker),
            ("total_timeout_sec", written.total_timeout_sec.is_some(), is_tried),
            ("delay_sec", written.delay_sec.is_some(), kind == StepType::Delay),
            ("delay_until", written.delay_until.is_some(), kind == StepType::Delay),
            ("event", written.event.is_some(), kind == StepType::WaitEvent),
            ("input", written.input.is_some(), has_input),
            ("input_schema", written.input_schema.is_some(), is_tried),
            ("output_schema", written.output_schema.is_some(), has_output),
            ("output_path", is_given(written.output_path.as_ref()), has_output),
            ("result_data_path", is_given(written.result_data_path.as_ref()), is_tried),
            ("worker_id", is_given(written.worker_id.as_ref()), is_worker),
            ("route_labels", !written.route_labels.is_empty(), is_worker),
        ];
        fields.into_iter().try_for_each(|(field, is_present, is_allowed)| {
            let problem = format!("a {} step does not support this field", kind.name());
            self.at(field, require(!is_present || is_allowed, problem))
        })
    }

    fn kind(self, workflow: &WorkflowId) -> Result<StepKind, InvalidWorkflow> {
        let document = self.document;
        // What controls other steps has no template for an input: it compiles its members one by one.
        let has_own_input = matches!(
            document.kind,
            StepType::Switch
                | StepType::Subworkflow
                | StepType::Parallel
                | StepType::Loop
                | StepType::Storage
        );
        let input = document.input.clone().filter(|_| !has_own_input);
        let input = input.map(|input| self.template("input", &Value::Object(input))).transpose()?;
        Ok(match document.kind {
            StepType::Worker
            | StepType::Llm
            | StepType::Http
            | StepType::Container
            | StepType::Script
            | StepType::Input => StepKind::Worker {
                topic: match &document.topic {
                    Some(topic) => topic.clone(),
                    None => self.at("topic", format!("job.workflow.{workflow}").parse::<Topic>())?,
                },
                input,
                fan_out: self.fan_out()?,
            },
            StepType::Approval => StepKind::Approval { input },
            StepType::Condition => {
                let test = document.condition.as_ref().ok_or("a condition step requires an expression");
                StepKind::Condition { test: self.expression("condition", self.at("condition", test)?)? }
            }
            StepType::Delay => StepKind::Delay(self.delay()?),
            StepType::Transform => {
                let input = input.ok_or("a transform step requires an input");
                StepKind::Transform { input: self.at("input", input)? }
            }
            StepType::Notify => {
                let input = input.ok_or("a notify step requires an input with its message");
                StepKind::Notify { input: self.at("input", input)? }
            }
            StepType::Switch => StepKind::Switch(self.switch()?),
            StepType::Parallel => StepKind::Parallel(self.parallel()?),
            StepType::Loop => StepKind::Loop(self.rounds()?),
            StepType::Storage => StepKind::Storage(self.storage()?),
            StepType::Subworkflow => StepKind::Subworkflow(self.subworkflow()?),
            StepType::WaitEvent => StepKind::WaitEvent(self.event()?),
        })
    }

    pub(super) fn fan_out(self) -> Result<Option<FanOutRule>, InvalidWorkflow> {
        let Some(items) = &self.document.for_each else { return Ok(None) };
        let parallel_max = self.parallel_max()?;
        Ok(Some(FanOutRule { items: self.expression("for_each", items)?, parallel_max }))
    }

    pub(super) fn parallel_max(self) -> Result<Option<NonZeroU32>, InvalidWorkflow> {
        let bound = self.document.max_parallel;
        let bound =
            bound.map(|it| self.at("max_parallel", NonZeroU32::new(it).ok_or("use at least 1, or omit it")));
        bound.transpose()
    }

    fn delay(self) -> Result<Delay, InvalidWorkflow> {
        match (self.document.delay_sec, &self.document.delay_until) {
            (Some(_), Some(_)) => self.at("delay_until", Err("use delay_sec or delay_until, not both")),
            (None, None) => self.at("delay_sec", Err("a delay step requires delay_sec or delay_until")),
            (written @ Some(_), None) => {
                Ok(Delay::For(self.at("delay_sec", seconds(written))?.unwrap_or_default()))
            }
            (None, Some(until)) => {
                if !until.contains("${") {
                    self.at("delay_until", until.parse::<crate::Timestamp>())?;
                }
                Ok(Delay::Until(self.template("delay_until", &Value::String(until.clone()))?))
            }
        }
    }

    fn budget(self) -> Result<Option<StepBudget>, InvalidWorkflow> {
        let Some(StepBudgetDocument { name, reserve }) = &self.document.budget else { return Ok(None) };
        let name = self.at("budget.name", name.parse())?;
        let reserve: Amount = self.at("budget.reserve", reserve.parse())?;
        self.at("budget.reserve", require(!reserve.is_zero(), "use an amount above 0".to_owned()))?;
        Ok(Some(StepBudget { name, reserve }))
    }
}

/// A number of seconds. Zero counts as absent.
pub(super) fn seconds(written: Option<f64>) -> Result<Option<Duration>, String> {
    match written {
        Some(seconds) if !(0.0..=SECONDS_MAX).contains(&seconds) => {
            Err(format!("use a number of seconds from 0 to {SECONDS_MAX}"))
        }
        written => Ok(written.map(Duration::from_secs_f64).filter(|it| !it.is_zero())),
    }
}

fn schema(
    written: Option<&Value>,
    patterns: usize,
) -> Result<Option<Schema>, interlock_schema::InvalidSchema> {
    written.map(|schema| Schema::compile_among(schema, patterns)).transpose()
}
