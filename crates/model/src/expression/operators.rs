//! Binary operators and their precedence.
use std::cmp::Ordering;

use super::number::Arithmetic;

#[derive(Debug)]
pub(super) struct Operator {
    /// As in the source.
    pub(super) symbol: &'static str,
    pub(super) level: Level,
    pub(super) operation: Operation,
}

/// Loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Or,
    And,
    Relation,
    Sum,
    Product,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Or,
    And,
    Equal,
    NotEqual,
    Order(fn(Ordering) -> bool),
    In,
    Arithmetic(Arithmetic),
    Remainder,
}

const fn operator(symbol: &'static str, level: Level, operation: Operation) -> Operator {
    Operator { symbol, level, operation }
}

static OPERATORS: [Operator; 14] = [
    operator("||", Level::Or, Operation::Or),
    operator("&&", Level::And, Operation::And),
    operator("==", Level::Relation, Operation::Equal),
    operator("!=", Level::Relation, Operation::NotEqual),
    operator("<", Level::Relation, Operation::Order(Ordering::is_lt)),
    operator("<=", Level::Relation, Operation::Order(Ordering::is_le)),
    operator(">", Level::Relation, Operation::Order(Ordering::is_gt)),
    operator(">=", Level::Relation, Operation::Order(Ordering::is_ge)),
    operator("in", Level::Relation, Operation::In),
    operator("+", Level::Sum, Operation::Arithmetic(Arithmetic::Add)),
    operator("-", Level::Sum, Operation::Arithmetic(Arithmetic::Subtract)),
    operator("*", Level::Product, Operation::Arithmetic(Arithmetic::Multiply)),
    operator("/", Level::Product, Operation::Arithmetic(Arithmetic::Divide)),
    operator("%", Level::Product, Operation::Remainder),
];

impl Operator {
    pub(super) fn written(text: &str) -> Option<&'static Self> {
        OPERATORS.iter().find(|operator| operator.symbol == text)
    }
}
