//! Schemas of the model's types for the `OpenAPI` document. The model itself knows nothing of HTTP.

use std::collections::BTreeMap;

use interlock_model::contention::{Arm, RolloutEventKind, RolloutState, Scope};
use interlock_model::job::JobState;
use interlock_model::lock::{LockKind, LockMode, ReleaseMode};
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_model::step::StepStatus;
use interlock_model::why::CauseCode;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

/// A workflow as its author writes it. Unknown fields are rejected.
#[derive(Debug, Clone, ToSchema)]
pub struct Workflow {
    /// Letters, digits, `.`, `_` and `-`; generated if absent. An existing id gets its next version.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub id: Option<String>,
    pub name: String,
    pub description: Option<String>,
    /// Ends the run as `timed_out`.
    pub timeout_sec: Option<f64>,
    /// JSON Schema of the input.
    pub input_schema: Option<Value>,
    /// 1 to 1,000 steps, by id.
    pub steps: BTreeMap<String, Step>,
}

/// One step of a workflow.
#[derive(Debug, Clone, ToSchema)]
pub struct Step {
    #[schema(inline)]
    pub r#type: StepType,
    /// Worker steps: the topic of its jobs.
    pub topic: Option<String>,
    #[schema(default = json!([]))]
    pub depends_on: Option<Vec<String>>,
    /// A bare expression. If it is false, the step is skipped.
    pub condition: Option<String>,
    /// Worker steps: an expression that gives a list; one job per item.
    pub for_each: Option<String>,
    /// Items of `for_each` that may run at once.
    pub max_parallel: Option<u32>,
    /// Input of the job. Strings may contain `${…}` templates.
    pub input: Option<Map<String, Value>>,
    /// JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// The step that takes over if this one fails.
    pub on_error: Option<String>,
    pub retry: Option<Retry>,
    /// Timeout of one attempt.
    pub timeout_sec: Option<f64>,
    /// Delay steps: how long, or else `delay_until`.
    pub delay_sec: Option<f64>,
    pub delay_until: Option<String>,
}

#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum StepType {
    Worker,
    Approval,
    Condition,
    Delay,
    Transform,
    Notify,
}

/// How often and when a failed step is retried, with full jitter.
#[derive(Debug, Clone, ToSchema)]
pub struct Retry {
    #[schema(default = 0)]
    pub max_retries: Option<u32>,
    #[schema(default = 1.0)]
    pub initial_backoff_sec: Option<f64>,
    #[schema(default = 2.0)]
    pub multiplier: Option<f64>,
    #[schema(default = 300.0)]
    pub max_backoff_sec: Option<f64>,
}

/// Every job state.
pub const JOB_STATES: [JobState; 8] = [
    JobState::Held,
    JobState::Queued,
    JobState::Running,
    JobState::Succeeded,
    JobState::Failed,
    JobState::Lost,
    JobState::Cancelled,
    JobState::Denied,
];

/// The name of a model value that is written as a plain string.
#[must_use]
pub fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        Ok(_) | Err(_) => unreachable!("only for values that serialize as strings"),
    }
}

/// Declares the schema of each name list.
macro_rules! name_schemas {
    ($($schema:ident: $values:expr;)*) => {
        $(pub(crate) fn $schema() -> Object {
            names($values).build()
        })*
    };
}

name_schemas! {
    run_status: &RunStatus::ALL;
    step_status: &StepStatus::ALL;
    job_state: &JOB_STATES;
    cause_code: &CauseCode::ALL;
    edge: &[Edge::Http, Edge::Nats];
    lock_mode: &[LockMode::Exclusive, LockMode::Shared];
    lock_kind: &[LockKind::PerItem, LockKind::PerLoop, LockKind::PerRun, LockKind::User];
    lock_release: &[ReleaseMode::Explicit, ReleaseMode::Expiry];
    scope: &Scope::ALL;
    arm: &Arm::ALL;
    rollout_state: {
        use RolloutState::{Aborted, Promoted, RolledBack, Running};
        &[Running, Promoted, RolledBack, Aborted]
    };
    rollout_event: {
        use RolloutEventKind::{Aborted, Promoted, RolledBack, Started};
        &[Started, Promoted, RolledBack, Aborted]
    };
}

/// In a request, where it may be left out.
pub(crate) fn lock_mode_asked() -> Object {
    let modes = names(&[LockMode::Exclusive, LockMode::Shared]);
    modes.default(Some(name(&LockMode::Exclusive).into())).build()
}

/// A value with its interval, or null; the upper end may be unknown.
pub(crate) fn estimate() -> Object {
    let number = || ObjectBuilder::new().schema_type(Type::Number);
    let high = ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Number, Type::Null]));
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .property("value", number())
        .property("low", number())
        .property("high", high)
        .required("value")
        .required("low")
        .required("high")
        .build()
}

/// A run's status in the answer to its start, which may be a replay of a deleted run.
pub(crate) fn start_status() -> Object {
    let statuses = RunStatus::ALL.iter().map(name).chain(["queued".to_owned(), "deleted".to_owned()]);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(statuses)).build()
}

fn names<T: Serialize>(values: &[T]) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .enum_values(Some(values.iter().map(name)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use interlock_model::workflow::WorkflowDocument;
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;

    fn properties<T: PartialSchema>() -> BTreeSet<String> {
        let schema = serde_json::to_value(T::schema()).unwrap();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    fn members(value: &Value) -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_published_schema_of_a_workflow_has_the_fields_that_are_read() {
        let step = json!({
            "type": "worker", "topic": "t", "depends_on": ["a"], "condition": "true", "for_each": "input.x",
            "max_parallel": 1, "input": {}, "output_schema": {}, "on_error": "b", "timeout_sec": 1.0,
            "retry": {"max_retries": 1, "initial_backoff_sec": 1.0, "multiplier": 2.0, "max_backoff_sec": 3.0},
            "delay_sec": 1.0, "delay_until": "2026-01-31T12:00:00Z"
        });
        let document = json!({
            "id": "w", "name": "n", "description": "d", "timeout_sec": 1.0, "input_schema": {}, "steps": {"s": step}
        });
        let read: WorkflowDocument = serde_json::from_value(document).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(properties::<Workflow>(), members(&written));
        assert_eq!(properties::<Step>(), members(&written["steps"]["s"]));
        assert_eq!(properties::<Retry>(), members(&written["steps"]["s"]["retry"]));
    }
}
