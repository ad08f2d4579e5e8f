//! Workflows: the user's document and the compiled form that the engine runs.

mod compile;
mod document;
mod drawing;
mod graph;
mod kind;
mod origin;
mod owner;
mod parallel;
mod rounds;
mod storage;
mod subworkflow;
mod switch;
#[cfg(test)]
mod tests;
mod tries;
mod wait_event;

pub use compile::{InvalidWorkflow, Step, Workflow};
pub use document::{
    AuthorVersion, EventDocument, Ignored, PolicyGate, RetryDocument, StepBudgetDocument, StepDocument,
    StepType, WorkflowDocument,
};
pub use drawing::{Drawing, DrawnEdge, DrawnStep, Way};
pub use graph::Route;
pub use kind::{Delay, FanOutRule, StepKind};
pub use parallel::{ParallelRule, ParallelStrategy};
pub use rounds::{LoopRule, ROUNDS_MAX};
pub use storage::{StorageOperation, StorageRule};
pub use subworkflow::SubworkflowRule;
pub use switch::{SwitchCases, SwitchRule};
pub use tries::StepRetry;
pub use wait_event::EventRule;

/// Names that an expression can read.
pub const ROOTS: [&str; 7] = ["input", "ctx", "steps", "item", "index", "error", "loop"];

pub const STEPS_MAX: usize = 1_000;
