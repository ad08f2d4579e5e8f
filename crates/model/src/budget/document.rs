//! The document of a budget, as an admin writes it.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Amount, Period, WarnMark, Window};
use crate::Timestamp;
use crate::expression::Expression;

/// Characters of a unit.
pub const UNIT_CHARS_MAX: usize = 32;

/// Thresholds of one budget.
pub const WARN_AT_MAX: usize = 10;

/// Characters of the name of a time zone.
const TIMEZONE_CHARS_MAX: usize = 64;

/// The names that the expression of a key may read.
pub(super) const KEY_ROOTS: [&str; 3] = ["input", "workflow", "labels"];

crate::named_enum! {
    /// What a step does that finds the budget exhausted. A reservation over HTTP is always answered at once.
    #[derive(Default)]
    pub enum OnExhausted {
        /// It fails.
        #[default]
        Deny = "deny",
        /// It waits for the budget.
        Queue = "queue",
        /// It waits for an approval.
        Ask = "ask",
    }
}

/// What may be spent, and in which windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetDocument {
    /// What the amounts count: `usd`, `tokens`, `calls`.
    pub unit: String,
    pub amount: Amount,
    pub per: Period,
    /// The IANA time zone of the calendar. None: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The expression whose values have an amount each. None: one amount for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Percentages of the amount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warn_at: Vec<u8>,
    #[serde(default)]
    pub on_exhausted: OnExhausted,
}

/// A document that is not valid: the field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidBudget {
    pub field: &'static str,
    pub reason: String,
}

fn invalid(field: &'static str, reason: impl Into<String>) -> Result<(), InvalidBudget> {
    Err(InvalidBudget { field, reason: reason.into() })
}

impl BudgetDocument {
    /// Rejects what no budget can be.
    pub fn check(&self) -> Result<(), InvalidBudget> {
        let unit = &self.unit;
        if !(1..=UNIT_CHARS_MAX).contains(&unit.chars().count()) || unit.chars().any(char::is_control) {
            return invalid("unit", format!("1 to {UNIT_CHARS_MAX} characters, none of them control"));
        }
        if let Some(name) = &self.timezone {
            if !self.per.is_calendar() {
                return invalid("timezone", "only a budget per hour, day or month has a time zone");
            }
            if zone(name).is_none() {
                let name: String = name.chars().take(TIMEZONE_CHARS_MAX).collect();
                return invalid(
                    "timezone",
                    format!("{name:?} is no IANA time zone, such as \"Europe/Berlin\""),
                );
            }
        }
        if let Some(key) = &self.key
            && let Err(error) = Expression::compile(key, &KEY_ROOTS)
        {
            return invalid("key", error.to_string());
        }
        if self.warn_at.len() > WARN_AT_MAX {
            return invalid("warn_at", format!("at most {WARN_AT_MAX} percentages"));
        }
        if self.warn_at.iter().any(|percent| !(1..=100).contains(percent)) {
            return invalid("warn_at", "percentages from 1 to 100");
        }
        if !self.warn_at.is_sorted_by(|one, next| one < next) {
            return invalid("warn_at", "percentages in ascending order, each once");
        }
        Ok(())
    }

    /// The window at this time by the wall clock. None: it is beyond the calendar.
    pub fn window_at(&self, now: Timestamp) -> Option<Window> {
        let zone = match &self.timezone {
            Some(name) => zone(name)?,
            None => TimeZone::UTC,
        };
        Window::at(self.per, &zone, now)
    }

    /// What has to be spent for each warning.
    pub fn warn_marks(&self) -> Vec<WarnMark> {
        let mark = |percent: &u8| WarnMark { percent: *percent, amount: self.amount.percent(*percent) };
        self.warn_at.iter().map(mark).collect()
    }
}

fn zone(name: &str) -> Option<TimeZone> {
    let is_short = name.len() <= TIMEZONE_CHARS_MAX;
    is_short.then(|| TimeZone::get(name).ok()).flatten()
}
