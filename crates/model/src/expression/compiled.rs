//! Compiled expressions.
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::budget::Budget;
use super::compare::equal;
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
pub struct Expression(Arc<Program>);

impl Expression {
    /// Compiles `source`, which may read the names in `roots` and no others.
    pub fn compile(source: &str, roots: &[&str]) -> Result<Self, CompileError> {
        parse(source, roots).map(|program| Self(Arc::new(program)))
    }

    fn source(&self) -> &str {
        &self.0.source
    }

    /// The expression's value in `scope`.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Json, EvaluateError> {
        self.evaluate_within(scope, &mut Budget::new(), |value| Output::new(RESULT_BYTES_MAX).json(&value, 0))
    }

    /// Whether the expression's value is true: anything but null, false, 0 and "".
    pub fn is_true(&self, scope: &dyn Scope) -> Result<bool, EvaluateError> {
        self.evaluate_within(scope, &mut Budget::new(), |value| Ok(value.is_true()))
    }

    /// The place of the first of these values that equals the expression's value.
    pub fn find_equal<'v>(
        &self,
        scope: &dyn Scope,
        values: impl Iterator<Item = &'v Json>,
    ) -> Result<Option<usize>, EvaluateError> {
        self.evaluate_within(scope, &mut Budget::new(), |found| {
            let mut budget = Budget::new();
            for (at, value) in values.enumerate() {
                if equal(&found, &Value::given(value), &mut budget)? {
                    return Ok(Some(at));
                }
            }
            Ok(None)
        })
    }

    /// Passes the value to `take`, because it borrows from this evaluation's reads.
    pub(super) fn evaluate_within<T>(
        &self,
        scope: &dyn Scope,
        budget: &mut Budget,
        take: impl FnOnce(Value<'_>) -> Result<T, EvaluateError>,
    ) -> Result<T, EvaluateError> {
        let reads = Reads::new(scope, &self.0);
        let value = Evaluator { reads: &reads, budget, locals: Vec::new() }.evaluate(&self.0.body)?;
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
