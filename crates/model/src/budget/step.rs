//! Budgets of steps: what a step reserves for each of its jobs, from whose amount, and what its workers report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::KEY_ROOTS;
use super::{Amount, BudgetDocument, BudgetGroup, InvalidAmount, Period};
use crate::expression::Expression;
use crate::limit::rule::StartFacts;
use crate::run::Start;
use crate::{BudgetName, JobId, PermitId, RunId, TenantId};

/// Budgets that one result may report the usage of.
pub const USAGE_MAX: usize = 16;

/// Characters of a field's name in an error.
const FIELD_CHARS_MAX: usize = 80;

/// What a step reserves for each of its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBudget {
    pub name: BudgetName,
    pub reserve: Amount,
}

impl StepBudget {
    /// What a job waits for until its budget is asked. Scripts write the same.
    pub fn pending(&self) -> String {
        format!("budget {} is to be asked", self.name)
    }
}

/// What the worker of a job has spent, by budget.
pub type JobUsage = BTreeMap<BudgetName, Amount>;

/// What a worker says that it has spent, of which this is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidUsage {
    pub field: String,
    pub reason: String,
}

/// Reads amounts by budget, as workers write them.
pub fn read_usage(written: BTreeMap<String, String>) -> Result<JobUsage, InvalidUsage> {
    if written.len() > USAGE_MAX {
        let reason = format!("{} is out of bounds; from 0 to {USAGE_MAX}", written.len());
        return Err(InvalidUsage { field: "usage".to_owned(), reason });
    }
    let read = |(name, amount): (String, String)| {
        let field: String = format!("usage.{name}").chars().take(FIELD_CHARS_MAX).collect();
        let invalid = |reason: String| InvalidUsage { field: field.clone(), reason };
        let name = name.parse().map_err(|_| invalid("it is not the name of a budget".to_owned()))?;
        let amount = amount.parse().map_err(|error: InvalidAmount| invalid(error.to_string()))?;
        Ok((name, amount))
    };
    written.into_iter().map(read).collect()
}

/// The permit of a job: each attempt is a job of its own. No request over HTTP can have its id.
pub fn job_permit_id(tenant: &TenantId, name: &BudgetName, job: &JobId) -> PermitId {
    let hash = blake3::hash(format!("job {tenant}/{name}/{job}").as_bytes()).to_hex();
    hash[..32].parse().expect("hexadecimal digits make a permit")
}

/// The run whose amount the steps of this run spend, where each run has one: children spend from that of their root.
pub fn spending_run(start: &Start) -> RunId {
    start.root()
}

impl BudgetDocument {
    /// Whether a step's group depends on its run.
    pub fn asks_for_run(&self) -> bool {
        self.key.is_some() || self.per == Period::Run
    }

    /// The group that the steps of a run reserve from, and the run whose amount it is. An error says why there is none.
    pub fn group_of_run(&self, start: &Start) -> Result<(Option<RunId>, BudgetGroup), String> {
        let run = (self.per == Period::Run).then(|| spending_run(start));
        let key = self.key.as_deref().map(|key| key_of(key, start)).transpose()?;
        let group = BudgetGroup::new(run, key.as_deref()).map_err(|error| error.to_string())?;
        Ok((run, group))
    }
}

/// Texts, numbers and truth values are keys.
fn key_of(source: &str, start: &Start) -> Result<String, String> {
    let key = Expression::compile(source, &KEY_ROOTS).map_err(|error| error.to_string())?;
    let facts = StartFacts { workflow: &start.workflow, input: &start.input, labels: &start.labels };
    match key.evaluate(&facts).map_err(|error| error.to_string())? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(is_true) => Ok(is_true.to_string()),
        Value::Null => Err("it is null for this run".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("it is a list or an object for this run".to_owned()),
    }
}
