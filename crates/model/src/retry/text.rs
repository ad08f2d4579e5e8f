//! The text form of policies: `fixed:500ms`, `bounded_jitter:500ms:30%`, `full_jitter:10ms:2s`,
//! `exponential:100ms:2:30s`.

use std::fmt;
use std::str::FromStr;

use super::{InvalidPolicy, RetryPolicy};

const FORMS: &str = "fixed:500ms, bounded_jitter:500ms:30%, full_jitter:10ms:2s, equal_jitter:10ms:2s, \
                     decorrelated_jitter:10ms:2s or exponential:100ms:2:30s";

impl FromStr for RetryPolicy {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidPolicy> {
        let unknown = || InvalidPolicy(format!("invalid retry policy {:?}: use {FORMS}", shown(text)));
        let kind_and_numbers: Vec<&str> = text.trim().split(':').collect();
        let time = |text: &str| time(text).ok_or_else(unknown);
        let policy = match kind_and_numbers.as_slice() {
            ["fixed", delay] => Self::Fixed { delay_ms: time(delay)? },
            ["bounded_jitter", base, percent] => {
                let percent = percent.strip_suffix('%').unwrap_or(percent).parse().map_err(|_| unknown())?;
                Self::BoundedJitter { base_ms: time(base)?, percent }
            }
            ["full_jitter", base, cap] => Self::FullJitter { base_ms: time(base)?, cap_ms: time(cap)? },
            ["equal_jitter", base, cap] => Self::EqualJitter { base_ms: time(base)?, cap_ms: time(cap)? },
            ["decorrelated_jitter", base, cap] => {
                Self::DecorrelatedJitter { base_ms: time(base)?, cap_ms: time(cap)? }
            }
            ["exponential", base, multiplier, cap] => {
                let multiplier = multiplier.parse().map_err(|_| unknown())?;
                Self::Exponential { base_ms: time(base)?, multiplier, cap_ms: time(cap)? }
            }
            _ => return Err(unknown()),
        };
        policy.checked()
    }
}

/// The beginning of a text, which may be long.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Milliseconds, with or without `ms`, or seconds with `s`.
fn time(text: &str) -> Option<u64> {
    if let Some(number) = text.strip_suffix("ms") {
        return number.parse().ok();
    }
    match text.strip_suffix('s') {
        Some(number) => number.parse::<u64>().ok()?.checked_mul(1_000),
        None => text.parse().ok(),
    }
}

impl fmt::Display for RetryPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { delay_ms } => write!(out, "fixed:{delay_ms}ms"),
            Self::BoundedJitter { base_ms, percent } => write!(out, "bounded_jitter:{base_ms}ms:{percent}%"),
            Self::FullJitter { base_ms, cap_ms } => write!(out, "full_jitter:{base_ms}ms:{cap_ms}ms"),
            Self::EqualJitter { base_ms, cap_ms } => write!(out, "equal_jitter:{base_ms}ms:{cap_ms}ms"),
            Self::DecorrelatedJitter { base_ms, cap_ms } => {
                write!(out, "decorrelated_jitter:{base_ms}ms:{cap_ms}ms")
            }
            Self::Exponential { base_ms, multiplier, cap_ms } => {
                write!(out, "exponential:{base_ms}ms:{multiplier}:{cap_ms}ms")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_round_trips() {
        for text in [
            "fixed:500ms",
            "bounded_jitter:500ms:30%",
            "full_jitter:10ms:2000ms",
            "equal_jitter:10ms:2000ms",
            "decorrelated_jitter:10ms:2000ms",
            "exponential:100ms:1.5:30000ms",
        ] {
            assert_eq!(text.parse::<RetryPolicy>().unwrap().to_string(), text);
        }
        assert_eq!("full_jitter:10:2s".parse(), Ok(RetryPolicy::FullJitter { base_ms: 10, cap_ms: 2_000 }));
    }

    #[test]
    fn the_error_of_an_invalid_policy_shows_the_valid_forms() {
        for text in
            ["", "fixed", "fixed:", "fixed:1:2", "fixed:5h", "jitter:5ms", "fixed:0ms", "full_jitter:2s:1s"]
        {
            assert!(text.parse::<RetryPolicy>().is_err(), "{text}");
        }
        assert!("soon".parse::<RetryPolicy>().unwrap_err().to_string().contains("bounded_jitter:500ms:30%"));
    }
}
