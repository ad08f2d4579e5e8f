//! The expression language of conditions and templates: a subset of CEL with bounded cost.
//!
//! Users write expressions, so source, nesting, steps, allocations and results are bounded (see `limits`). Nothing panics,
//! and every recursion counts its depth, because a stack overflow would abort the process and every tenant's runs.
//!
//! It differs from CEL for users of more lenient systems: a missing value is null, and `&&`, `||`, `!` and `?:` use
//! truthiness (null, false, 0 and "" are false).

mod budget;
mod compare;
mod compiled;
mod error;
mod evaluate;
mod functions;
mod lexer;
mod limits;
mod number;
mod operators;
mod output;
mod parser;
mod scope;
mod syntax;
mod template;
#[cfg(test)]
mod tests;
mod value;

pub use compiled::Expression;
pub use error::{CompileError, EvaluateError};
pub use limits::{
    ALLOCATED_BYTES_MAX, DEPTH_MAX, RENDERED_BYTES_MAX, RESULT_BYTES_MAX, SOURCE_BYTES_MAX, STEPS_MAX,
    TEMPLATE_DEPTH_MAX, VALUE_DEPTH_MAX,
};
pub use scope::{Member, Scope};
pub use template::Template;
