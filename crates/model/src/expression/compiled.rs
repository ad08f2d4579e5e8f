//! Compiled expressions.
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::budget::Budget;
use super::error::{CompileError, EvaluateError};
use super::evaluate::Evaluator;
use super::limits::RESULT_BYTES_MAX;
use super::output::Output;
use super::parser::parse;
use super::scope::{Reads, Scope};
use super::syntax::Program;
use super::value::Value;

/// A compiled expression. Cloning is cheap; two expressions are equal if their sources are.
#[derive(Clone)]
pub struct Expression {
    compiled: Arc<Compiled>,
}

struct Compiled {
    source: String,
    program: Program,
}

impl Expression {
    /// Compiles `source`, which may read the names in `roots` and no others.
    pub fn compile(source: &str, roots: &[&str]) -> Result<Self, CompileError> {
        let program = parse(source, roots)?;
        Ok(Self { compiled: Arc::new(Compiled { source: source.to_owned(), program }) })
    }

    #[must_use]
    pub fn source(&self) -> &str {
        &self.compiled.source
    }

    /// The expression's value in `scope`.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Json, EvaluateError> {
        self.evaluate_within(scope, &mut Budget::new(), |value| Output::new(RESULT_BYTES_MAX).json(&value, 0))
    }

    /// Whether the expression's value is true: anything but null, false, 0 and "".
    pub fn is_true(&self, scope: &dyn Scope) -> Result<bool, EvaluateError> {
        self.evaluate_within(scope, &mut Budget::new(), |value| Ok(value.is_true()))
    }

    /// Passes the value to `take`, because it borrows from this evaluation's reads.
    pub(super) fn evaluate_within<T>(
        &self,
        scope: &dyn Scope,
        budget: &mut Budget,
        take: impl FnOnce(Value<'_>) -> Result<T, EvaluateError>,
    ) -> Result<T, EvaluateError> {
        let program = &self.compiled.program;
        let reads = Reads::new(scope, program);
        let value = Evaluator { reads: &reads, budget, locals: Vec::new() }.evaluate(&program.body)?;
        take(value)
    }
}

/// Prints only the source, because printing the tree would recur.
impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Expression").field(&self.source()).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Expression {}
