//! Fuzzing of what users write: expressions, workflows, YAML, JSON, retry policies and ids.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documents;
mod expressions;
mod json;
mod names;
mod retry_policies;
mod workflows;
