//! Checked arithmetic, and exact comparison of integers with floats.
use std::cmp::Ordering;

use serde_json::Number as JsonNumber;

use super::error::EvaluateError;

/// More digits than the exact decimal form of any float.
const DIGITS_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    /// Always finite.
    Float(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Number {
    /// An integer if it fits, else a finite float. A very long text is neither, because every use would parse it again for
    /// the cost of one step.
    pub(super) fn given(number: &JsonNumber) -> Option<Self> {
        if number.as_str().len() > DIGITS_MAX {
            return None;
        }
        let float = || number.as_f64().filter(|float| float.is_finite()).map(Self::Float);
        number.as_i64().map(Self::Int).or_else(float)
    }

    pub(super) fn finite(float: f64) -> Result<Self, EvaluateError> {
        if float.is_finite() { Ok(Self::Float(float)) } else { Err(EvaluateError::NotFinite) }
    }

    pub(super) fn is_zero(self) -> bool {
        match self {
            Self::Int(int) => int == 0,
            Self::Float(float) => float == 0.0,
        }
    }

    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Int(int) => rounded(int),
            Self::Float(float) => float,
        }
    }

    /// Drops the fraction.
    pub(super) fn to_i64(self) -> Result<i64, EvaluateError> {
        match self {
            Self::Int(int) => Ok(int),
            Self::Float(float) => truncated(float).ok_or(EvaluateError::Overflow),
        }
    }

    pub(super) fn negate(self) -> Result<Self, EvaluateError> {
        match self {
            Self::Int(int) => int.checked_neg().map(Self::Int).ok_or(EvaluateError::Overflow),
            Self::Float(float) => Ok(Self::Float(-float)),
        }
    }

    /// Two integers give an integer, as in CEL; `7 / 2` is 3.
    pub(super) fn compute(self, operation: Arithmetic, other: Self) -> Result<Self, EvaluateError> {
        if operation == Arithmetic::Divide && other.is_zero() {
            return Err(EvaluateError::DivisionByZero);
        }
        if let (Self::Int(left), Self::Int(right)) = (self, other) {
            let result = match operation {
                Arithmetic::Add => left.checked_add(right),
                Arithmetic::Subtract => left.checked_sub(right),
                Arithmetic::Multiply => left.checked_mul(right),
                Arithmetic::Divide => left.checked_div(right),
            };
            return result.map(Self::Int).ok_or(EvaluateError::Overflow);
        }
        let (left, right) = (self.to_f64(), other.to_f64());
        Self::finite(match operation {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
        })
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(&right),
            // Finite floats are always ordered.
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
            (Self::Int(left), Self::Float(right)) => compare_mixed(left, right),
            (Self::Float(left), Self::Int(right)) => compare_mixed(right, left).reverse(),
        }
    }
}

/// Exact: 2^53 + 1 does not equal the float 2^53, to which it would round.
fn compare_mixed(int: i64, float: f64) -> Ordering {
    match truncated(float) {
        Some(whole) => {
            int.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
        }
        None if float > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    }
}

#[expect(clippy::cast_precision_loss, reason = "an integer among floats is rounded, as in CEL")]
fn rounded(int: i64) -> f64 {
    int as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the range is checked, and the fraction is to be dropped"
)]
fn truncated(float: f64) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    (-BOUND..BOUND).contains(&float).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Number::{Float, Int};

    #[test]
    fn an_integer_result_that_does_not_fit_is_an_overflow() {
        for (left, operation, right) in [
            (i64::MAX, Arithmetic::Add, 1),
            (i64::MIN, Arithmetic::Subtract, 1),
            (i64::MAX, Arithmetic::Multiply, 2),
            (i64::MIN, Arithmetic::Divide, -1),
        ] {
            assert_eq!(Int(left).compute(operation, Int(right)), Err(EvaluateError::Overflow));
        }
        assert_eq!(Int(i64::MIN).negate(), Err(EvaluateError::Overflow));
        assert_eq!(Float(9.3e18).to_i64(), Err(EvaluateError::Overflow));
    }

    #[test]
    fn a_float_result_is_finite_or_an_error() {
        assert_eq!(Float(1e308).compute(Arithmetic::Multiply, Int(10)), Err(EvaluateError::NotFinite));
        assert_eq!(Float(1.0).compute(Arithmetic::Divide, Float(-0.0)), Err(EvaluateError::DivisionByZero));
    }

    #[test]
    fn integers_and_floats_are_compared_without_rounding() {
        assert_eq!(Int(9_007_199_254_740_993).compare(Float(9_007_199_254_740_992.0)), Ordering::Greater);
        assert_eq!(Int(i64::MAX).compare(Float(9_223_372_036_854_775_808.0)), Ordering::Less);
        assert_eq!(Int(i64::MIN).compare(Float(-9_223_372_036_854_775_808.0)), Ordering::Equal);
        assert_eq!(Int(-1).compare(Float(-1.5)), Ordering::Greater);
        assert_eq!(Float(1.5).compare(Int(1)), Ordering::Greater);
        assert_eq!(Int(0).compare(Float(-1e300)), Ordering::Greater);
    }
}
