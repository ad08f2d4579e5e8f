//! Workflows: the user's document and the compiled form that the engine runs.

mod compile;
mod document;
mod graph;
mod owner;
mod parallel;
mod subworkflow;
mod switch;
#[cfg(test)]
mod tests;

pub use compile::{Delay, FanOutRule, InvalidWorkflow, Step, StepKind, Workflow};
pub use document::{RetryDocument, StepBudgetDocument, StepDocument, StepType, WorkflowDocument};
pub use graph::Route;
pub use parallel::{ParallelRule, ParallelStrategy};
pub use subworkflow::SubworkflowRule;
pub use switch::{SwitchCases, SwitchRule};

/// Names that an expression can read.
pub const ROOTS: [&str; 6] = ["input", "ctx", "steps", "item", "index", "error"];

pub const STEPS_MAX: usize = 1_000;
