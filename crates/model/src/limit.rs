//! What a tenant may use at once, and where that number comes from.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The most a limit may say.
pub const RUNS_MAX_BOUND: u32 = 1_000_000_000;

/// In force where neither the tenant nor the system says anything.
pub const RUNS_MAX_DEFAULT: u32 = 10;

/// Limits as written down for one scope. What is absent is inherited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Runs that may be live at once. Zero admits none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_max: Option<u32>,
    /// How long an idempotency key is kept; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_retention: Option<Duration>,
}

/// Limits in force: every number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveLimits {
    pub runs_max: u32,
    pub key_retention: Option<Duration>,
}

impl Limits {
    /// What holds for a tenant whose own limits are these, under the system's.
    #[must_use]
    pub fn under(self, system: Self) -> EffectiveLimits {
        EffectiveLimits {
            runs_max: self.runs_max.or(system.runs_max).unwrap_or(RUNS_MAX_DEFAULT),
            key_retention: self.key_retention.or(system.key_retention),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_own_limit_wins_and_zero_is_a_limit() {
        let system = Limits { runs_max: Some(5), key_retention: None };
        let zero = Limits { runs_max: Some(0), key_retention: None };
        assert_eq!(zero.under(system).runs_max, 0);
        assert_eq!(Limits::default().under(system).runs_max, 5);
        assert_eq!(Limits::default().under(Limits::default()).runs_max, RUNS_MAX_DEFAULT);
    }
}
