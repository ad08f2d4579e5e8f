//! Amounts: decimal numbers, kept as integers of millionths. Money is never a float.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How an amount is written: up to ten digits, and up to six after the point.
pub const AMOUNT_PATTERN: &str = r"^(0|[1-9][0-9]{0,8}|[1-8][0-9]{9})(\.[0-9]{1,6})?$";

/// The same with a sign.
pub const DELTA_PATTERN: &str = r"^-?(0|[1-9][0-9]{0,8}|[1-8][0-9]{9})(\.[0-9]{1,6})?$";

const MICROS: u64 = 1_000_000;

/// What is spent, in millionths of the unit of its budget: below 9·10⁹ units, which a double still counts exactly. Sums stop
/// at the maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Amount(u64);

impl Amount {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(9_000_000_000 * MICROS - 1);

    /// What is above the maximum becomes the maximum.
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    pub const fn micros(self) -> u64 {
        self.0
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_add(other.0))
    }

    /// Never below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    #[must_use]
    pub fn adjusted(self, delta: Delta) -> Self {
        let size = Self(delta.0.unsigned_abs());
        if delta.0 < 0 { self.minus(size) } else { self.plus(size) }
    }

    /// The part of it that is at least this percentage.
    #[must_use]
    pub fn percent(self, percent: u8) -> Self {
        let part = (u128::from(self.0) * u128::from(percent)).div_ceil(100);
        Self::from_micros(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// As a number for a gauge, which is no ledger.
    #[expect(clippy::cast_precision_loss, reason = "amounts are below 2^53")]
    pub fn as_units(self) -> f64 {
        self.0 as f64 / MICROS as f64
    }
}

/// A text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no amount: write a decimal number {range}, with up to six digits after the point, as a text, such as \
     \"0.05\""
)]
pub struct InvalidAmount {
    text: String,
    range: &'static str,
}

impl InvalidAmount {
    fn new(text: &str, range: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), range }
    }
}

impl FromStr for Amount {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let invalid = || InvalidAmount::new(text, "of at least 0 and below 9000000000");
        let (whole, fraction) =
            text.split_once('.').map_or((text, None), |(whole, part)| (whole, Some(part)));
        let is_number = |part: &str, most: usize| {
            (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let has_one_spelling = whole == "0" || !whole.starts_with('0');
        if !is_number(whole, 10) || !has_one_spelling || !fraction.is_none_or(|part| is_number(part, 6)) {
            return Err(invalid());
        }
        let whole: u64 = whole.parse().map_err(|_| invalid())?;
        let part: u64 = format!("{:0<6}", fraction.unwrap_or("")).parse().map_err(|_| invalid())?;
        let micros = whole * MICROS + part;
        if micros > Self::MAX.0 { Err(invalid()) } else { Ok(Self(micros)) }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / MICROS, self.0 % MICROS);
        if part == 0 {
            return write!(out, "{whole}");
        }
        let part = format!("{part:06}");
        write!(out, "{whole}.{}", part.trim_end_matches('0'))
    }
}

/// A change of an amount, up or down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Delta(i64);

impl Delta {
    pub const ZERO: Self = Self(0);

    pub fn micros(self) -> i64 {
        self.0
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn reversed(self) -> Self {
        Self(-self.0)
    }

    /// Its size, whatever its sign.
    pub fn size(self) -> Amount {
        Amount(self.0.unsigned_abs())
    }

    /// Stops at the largest amount, up and down.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let most = i64::try_from(Amount::MAX.0).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(other.0).clamp(-most, most))
    }
}

impl From<Amount> for Delta {
    fn from(amount: Amount) -> Self {
        Self(i64::try_from(amount.0).unwrap_or(i64::MAX))
    }
}

impl FromStr for Delta {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let (digits, is_negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
        let size = Self::from(
            digits
                .parse::<Amount>()
                .map_err(|_| InvalidAmount::new(text, "between -9000000000 and 9000000000"))?,
        );
        Ok(if is_negative { Self(-size.0) } else { size })
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(out, "{sign}{}", self.size())
    }
}
