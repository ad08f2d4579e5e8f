//! The expression language of conditions and templates: a subset of CEL that cannot hurt the node.
//!
//! Users write it, so every step is bounded: the source, the nesting, the work, what is built and what comes out
//! (see the constants of `limits`). Nothing panics and nothing recurses without a counted depth, since a stack
//! overflow aborts the process and every tenant's runs with it.
//!
//! The differences from CEL are for people who come from more lenient systems: what is missing is null, and
//! `&&`, `||`, `!` and `?:` go by truthiness (null, false, 0 and "" are false).

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
#[cfg(test)]
mod semantics;
mod syntax;
mod template;
mod value;

pub use compiled::Expression;
pub use error::{CompileError, EvaluateError};
pub use limits::{
    ALLOCATED_BYTES_MAX, DEPTH_MAX, RENDERED_BYTES_MAX, RESULT_BYTES_MAX, SOURCE_BYTES_MAX, STEPS_MAX,
    TEMPLATE_DEPTH_MAX, VALUE_DEPTH_MAX,
};
pub use scope::{Member, Scope};
pub use template::Template;
