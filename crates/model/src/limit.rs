//! Limits of a tenant and how they are inherited.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The largest valid limit.
pub const RUNS_MAX_BOUND: u32 = 1_000_000_000;

/// The limit where neither the tenant nor the system sets one.
pub const RUNS_MAX_DEFAULT: u32 = 10;

/// The limits set for one scope. An absent limit is inherited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of active runs. Zero admits none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_max: Option<u32>,
    /// How long an idempotency key is kept; forever, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_retention: Option<Duration>,
}

/// The limits in force after inheritance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct EffectiveLimits {
    pub runs_max: u32,
    pub key_retention: Option<Duration>,
}

impl Limits {
    /// The tenant's own limits, completed by the system's.
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
