//! Binary operators and their precedence.
use super::syntax::Binary;

/// Loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Or,
    And,
    Relation,
    Sum,
    Product,
    /// Tighter than every operator.
    Operand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Binary(Binary),
}

impl Level {
    pub(super) fn tighter(self) -> Self {
        match self {
            Self::Or => Self::And,
            Self::And => Self::Relation,
            Self::Relation => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product | Self::Operand => Self::Operand,
        }
    }
}

impl Operator {
    /// The operator with this symbol and its precedence.
    pub(super) fn written(text: &str) -> Option<(Level, Self)> {
        let (level, binary) = match text {
            "||" => return Some((Level::Or, Self::Or)),
            "&&" => return Some((Level::And, Self::And)),
            "==" => (Level::Relation, Binary::Equal),
            "!=" => (Level::Relation, Binary::NotEqual),
            "<" => (Level::Relation, Binary::Less),
            "<=" => (Level::Relation, Binary::LessOrEqual),
            ">" => (Level::Relation, Binary::Greater),
            ">=" => (Level::Relation, Binary::GreaterOrEqual),
            "in" => (Level::Relation, Binary::In),
            "+" => (Level::Sum, Binary::Add),
            "-" => (Level::Sum, Binary::Subtract),
            "*" => (Level::Product, Binary::Multiply),
            "/" => (Level::Product, Binary::Divide),
            "%" => (Level::Product, Binary::Remainder),
            _ => return None,
        };
        Some((level, Self::Binary(binary)))
    }
}
