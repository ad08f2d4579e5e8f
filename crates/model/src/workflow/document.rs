//! The user's form of a workflow. Unknown fields are rejected, so that a misspelled one is not silently ignored.

use std::collections::BTreeMap;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::meta::JobMeta;
use crate::retry::Jitter;
use crate::{EventName, StepId, TenantId, Topic, WorkflowId};

/// A workflow as its author writes it. Unknown fields are rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Workflow)]
pub struct WorkflowDocument {
    /// Letters, digits, `.`, `_` and `-`; generated if absent. An existing id gets its next version.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<WorkflowId>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The author's own version, kept and shown. Each saved document has a number besides.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<AuthorVersion>,
    /// The tenant. A document of another one is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org_id: Option<TenantId>,
    /// Kept and shown, as the next ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Ignored, as `updated_at`: the server says when.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing)]
    pub created_at: Ignored,
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing)]
    pub updated_at: Ignored,
    /// Not supported; empty if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_override: Option<String>,
    /// Ends the run as `timed_out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    /// JSON Schema of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// 1 to 1,000 steps, by id.
    pub steps: BTreeMap<StepId, StepDocument>,
}

/// A version as its author writes it: a text or a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuthorVersion(pub String);

impl<'de> Deserialize<'de> for AuthorVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom("use a text or a number"))
            }
        }
    }
}

/// A member that may be there, and means nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| Self)
    }
}

impl WorkflowDocument {
    /// The document with all defaults written out whose meaning has changed: what is absent in a stored document has the
    /// meaning that it had when that was saved.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        for step in self.steps.values_mut() {
            if step.kind.is_worker() && step.timeout_sec.is_some() {
                step.queue_timeout_sec.get_or_insert(0.0);
            }
            if let Some(retry) = &mut step.retry {
                retry.jitter.get_or_insert(Jitter::Equal);
            }
        }
        self
    }
}

crate::named_enum! {
    pub enum StepType {
        Worker = "worker",
        Approval = "approval",
        Condition = "condition",
        Delay = "delay",
        Transform = "transform",
        Notify = "notify",
        Switch = "switch",
        Parallel = "parallel",
        Loop = "loop",
        Storage = "storage",
        Subworkflow = "subworkflow",
        WaitEvent = "wait_event",
        /// A worker step, as the other names below: what kind of work it is, for people and their tools.
        Llm = "llm",
        Http = "http",
        Container = "container",
        Script = "script",
        Input = "input",
    }
}

impl StepType {
    /// Whether its jobs go to workers.
    pub fn is_worker(self) -> bool {
        match self {
            Self::Worker | Self::Llm | Self::Http | Self::Container | Self::Script | Self::Input => true,
            Self::Approval
            | Self::Condition
            | Self::Delay
            | Self::Transform
            | Self::Notify
            | Self::Switch
            | Self::Parallel
            | Self::Loop
            | Self::Storage
            | Self::Subworkflow
            | Self::WaitEvent => false,
        }
    }
}

/// One step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Step)]
pub struct StepDocument {
    /// The step's own id, if the document repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<StepId>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[schema(inline)]
    #[serde(rename = "type")]
    pub kind: StepType,
    /// Worker steps: the topic of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    #[schema(default = json!([]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepId>,
    /// A bare expression. If it is false, the step is skipped. Of a condition step it is the test, of a switch step the
    /// value that chooses the case, and a loop continues as long as it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Worker and subworkflow steps: an expression that gives a list; one job or run per item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// Items of `for_each`, or branches of a parallel step, that may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Input of the job. Strings may contain `${…}` templates. Of a switch step: its `cases` and its `default`. Of a
    /// subworkflow step: its `workflow_id` and its `input_mapping`. Of a parallel step: its `steps`, its `strategy` and what
    /// is `required`. Of a loop step: its `body`, `while`, `until`, `count` and `max_iterations`. Of a
    /// storage step: its `operation`, its `key` and its `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    /// JSON Schema of the input of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// Not supported, as `output_schema_id`: there is no registry of schemas. Empty if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema_id: Option<String>,
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema_id: Option<String>,
    /// The part of a result that is the output, such as `data.text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_data_path: Option<String>,
    /// Where expressions find the output besides, within `ctx`: `plan.text` is read as `ctx.plan.text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    /// The step that takes over if this one fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDocument>,
    /// How long one attempt may take: of a worker from its claim, of an approval from its opening, of a child run from its
    /// start. 0 is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    /// Worker steps: how long each attempt may wait until a worker claims it. Absent or 0 is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_sec: Option<f64>,
    /// How long all attempts together may take, with their waits, and of a step with `for_each` all items together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout_sec: Option<f64>,
    /// Delay steps: how long, or else `delay_until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_sec: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<String>,
    /// Steps that wait for an event: for which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JobMeta>,
    /// Worker steps: the label `worker_id` of its jobs, and the adapter id that NATS workers get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Worker steps: labels of its jobs. A worker must have the capability `NAME:VALUE` for each whose name begins with
    /// `placement.`, `constraint.` or `node.`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub route_labels: BTreeMap<String, String>,
    /// A remark of the author's tools, kept and shown. Nothing enforces it: see the dispatch policy.
    #[schema(inline)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_gate: Option<PolicyGate>,
    /// Worker steps: what each job reserves before it may go to a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<StepBudgetDocument>,
}

/// Which event a step waits for. It takes the first that is sent to the run under this name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EventWait)]
pub struct EventDocument {
    pub name: EventName,
    /// Also take what is sent to this key and to no run. It may contain `${…}` templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// An expression over `event` that must be true for the event that is taken.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

crate::named_enum! {
    pub enum PolicyGate {
        /// Of tools that write a member without a value.
        Unknown = "",
        Allow = "allow",
        Deny = "deny",
        RequireApproval = "require_approval",
    }
}

/// What each job of a step reserves from a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepBudget)]
pub struct StepBudgetDocument {
    /// The name of the budget.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// The most that one attempt may spend: a decimal number above 0.
    #[schema(pattern = "^(0|[1-9][0-9]{0,8}|[1-8][0-9]{9})(\\.[0-9]{1,6})?$")]
    pub reserve: String,
}

/// How often and when a failed step is retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Retry)]
pub struct RetryDocument {
    #[schema(default = 0)]
    pub max_retries: u32,
    #[schema(default = 1.0)]
    pub initial_backoff_sec: f64,
    #[schema(default = 2.0)]
    pub multiplier: f64,
    #[schema(default = 300.0)]
    pub max_backoff_sec: f64,
    /// `equal_jitter` draws each delay from the upper half of the backoff, `full_jitter` from all of it, `fixed` waits for
    /// all of it. `equal_jitter` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline, default = "equal_jitter")]
    pub jitter: Option<Jitter>,
}

impl Default for RetryDocument {
    fn default() -> Self {
        Self {
            max_retries: 0,
            initial_backoff_sec: 1.0,
            multiplier: 2.0,
            max_backoff_sec: 300.0,
            jitter: None,
        }
    }
}
