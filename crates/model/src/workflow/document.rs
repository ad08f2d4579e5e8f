//! The user's form of a workflow. Unknown fields are rejected, so that a misspelled one is not silently ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::meta::JobMeta;
use crate::{EventName, StepId, Topic, WorkflowId};

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
    /// Ends the run as `timed_out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    /// JSON Schema of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// 1 to 1,000 steps, by id.
    pub steps: BTreeMap<StepId, StepDocument>,
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
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The step that takes over if this one fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDocument>,
    /// Timeout of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
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

/// How often and when a failed step is retried, with full jitter.
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
}

impl Default for RetryDocument {
    fn default() -> Self {
        Self { max_retries: 0, initial_backoff_sec: 1.0, multiplier: 2.0, max_backoff_sec: 300.0 }
    }
}
