//! The document of a parallel step: its branches, and how many of them must succeed.

use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::compile::{InvalidWorkflow, WrittenStep};
use crate::StepId;

/// Branches of one parallel step.
const BRANCHES_MAX: usize = 100;

/// What a parallel step makes of the ends of its branches.
#[derive(Debug, Clone)]
pub struct ParallelRule {
    pub branches: Vec<StepId>,
    pub strategy: ParallelStrategy,
    /// Branches that may run at once.
    pub parallel_max: Option<NonZeroU32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParallelStrategy {
    /// None may fail.
    All,
    /// This number of them must succeed: one, for the strategy `any`.
    AtLeast(usize),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StrategyName {
    All,
    Any,
    NOfM,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BranchesInput {
    List(Vec<StepId>),
    /// Separated by commas.
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParallelInput {
    #[serde(alias = "branches")]
    steps: BranchesInput,
    #[serde(default, alias = "mode")]
    strategy: Option<StrategyName>,
    #[serde(default)]
    required: Option<usize>,
}

/// The branches of a parallel step as its author wrote them, and what it makes of their ends.
pub(super) struct ParallelDocument {
    pub(super) branches: Vec<StepId>,
    pub(super) strategy: ParallelStrategy,
}

impl ParallelDocument {
    /// Reads the `input` of the parallel step `step`.
    pub(super) fn read(step: &StepId, input: Option<&Map<String, Value>>) -> Result<Self, InvalidWorkflow> {
        let place = format!("steps.{step}.input");
        let Some(input) = input else {
            return Err(InvalidWorkflow::new(place, "a parallel step requires an input with its steps"));
        };
        let read = serde_json::from_value(Value::Object(input.clone()));
        let ParallelInput { steps, strategy, required } =
            read.map_err(|error| InvalidWorkflow::new(&place, error))?;
        let branches = match steps {
            BranchesInput::List(branches) => branches,
            BranchesInput::Text(names) => {
                let branches = names.split(',').map(|name| name.trim().parse());
                let branches = branches.collect::<Result<Vec<StepId>, _>>();
                branches.map_err(|error| InvalidWorkflow::new(format!("{place}.steps"), error))?
            }
        };
        if !(1..=BRANCHES_MAX).contains(&branches.len()) {
            let problem = format!("{} branches: use 1 to {BRANCHES_MAX}", branches.len());
            return Err(InvalidWorkflow::new(format!("{place}.steps"), problem));
        }
        let most = branches.len();
        let strategy = match (strategy.unwrap_or(StrategyName::All), required) {
            (StrategyName::All, None) => ParallelStrategy::All,
            (StrategyName::Any, None) => ParallelStrategy::AtLeast(1),
            (StrategyName::NOfM, Some(required)) if (1..=most).contains(&required) => {
                ParallelStrategy::AtLeast(required)
            }
            (StrategyName::NOfM, _) => {
                let problem =
                    format!("the strategy n_of_m requires a number from 1 to {most}, of its {most} branches");
                return Err(InvalidWorkflow::new(format!("{place}.required"), problem));
            }
            (StrategyName::All | StrategyName::Any, Some(_)) => {
                let problem = "only the strategy n_of_m supports this field";
                return Err(InvalidWorkflow::new(format!("{place}.required"), problem));
            }
        };
        Ok(Self { branches, strategy })
    }
}

impl WrittenStep<'_> {
    pub(super) fn parallel(self) -> Result<ParallelRule, InvalidWorkflow> {
        let ParallelDocument { branches, strategy } =
            ParallelDocument::read(self.id, self.document.input.as_ref())?;
        Ok(ParallelRule { branches, strategy, parallel_max: self.parallel_max()? })
    }
}
