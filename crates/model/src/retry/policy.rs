//! Retry policies for contended locks.

use std::time::Duration;

use rand::RngExt;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Backoff, Seed};
use crate::time::millis;

/// The maximum delay between two attempts.
pub const DELAY_MAX: Duration = Duration::from_mins(10);

const MULTIPLIER_MAX: f64 = 100.0;

/// How long to wait between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RetryPolicy {
    /// Always the same delay. Contenders that collided once collide again.
    Fixed { delay_ms: u64 },
    /// Uniform within ± `percent` of the base.
    BoundedJitter { base_ms: u64, percent: u32 },
    /// Uniform from zero to a ceiling that doubles with every attempt, up to the cap.
    FullJitter { base_ms: u64, cap_ms: u64 },
    /// Uniform in the upper half of that ceiling.
    EqualJitter { base_ms: u64, cap_ms: u64 },
    /// Uniform from the base to three times the previous delay, up to the cap.
    DecorrelatedJitter { base_ms: u64, cap_ms: u64 },
    /// Grows by the multiplier with every attempt, up to the cap. No jitter.
    Exponential {
        base_ms: u64,
        #[serde(deserialize_with = "double")]
        multiplier: f64,
        cap_ms: u64,
    },
}

/// A number inside of an enum with a tag: the deserializer passes it on as serde's own form of a number, not as a double.
fn double<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    number.as_f64().ok_or_else(|| D::Error::custom("the number is too large"))
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPolicy(pub(super) String);

impl InvalidPolicy {
    pub(crate) fn new(sentence: String) -> Self {
        Self(sentence)
    }
}

impl RetryPolicy {
    /// The policy, if it is within bounds.
    pub fn checked(self) -> Result<Self, InvalidPolicy> {
        let wrong = |sentence: String| Err(InvalidPolicy(sentence));
        let (base, cap) = match self {
            Self::Fixed { delay_ms } => (delay_ms, None),
            Self::BoundedJitter { percent, .. } if percent > 100 => {
                return wrong(format!("invalid percent {percent}: use 0 to 100"));
            }
            Self::Exponential { multiplier, .. } if !(1.0..=MULTIPLIER_MAX).contains(&multiplier) => {
                return wrong(format!("invalid multiplier {multiplier}: use 1 to {MULTIPLIER_MAX}"));
            }
            Self::BoundedJitter { base_ms, .. } => (base_ms, None),
            Self::FullJitter { base_ms, cap_ms }
            | Self::EqualJitter { base_ms, cap_ms }
            | Self::DecorrelatedJitter { base_ms, cap_ms }
            | Self::Exponential { base_ms, cap_ms, .. } => (base_ms, Some(cap_ms)),
        };
        let longest = millis(DELAY_MAX);
        if base == 0 || base > longest || cap.is_some_and(|cap| cap > longest) {
            return wrong(format!("invalid delay: use 1 ms to {longest} ms"));
        }
        if cap.is_some_and(|cap| cap < base) {
            return wrong(format!("the cap must be at least the base of {base} ms"));
        }
        Ok(self)
    }

    /// The delay after attempt number `attempt` (from 1) failed. `previous` is the delay before that attempt, if any.
    pub fn delay(&self, attempt: u32, previous: Option<Duration>, seed: Seed) -> Duration {
        let draw = |low: u64, high: u64| seed.part(attempt.into()).rng().random_range(low..=high.max(low));
        let delay = match *self {
            Self::Fixed { delay_ms } => delay_ms,
            Self::BoundedJitter { base_ms, percent } => {
                let band = base_ms.saturating_mul(percent.into()) / 100;
                draw(base_ms.saturating_sub(band), base_ms.saturating_add(band))
            }
            Self::FullJitter { base_ms, cap_ms } => draw(0, ceiling(base_ms, 2.0, cap_ms, attempt)),
            Self::EqualJitter { base_ms, cap_ms } => {
                let ceiling = ceiling(base_ms, 2.0, cap_ms, attempt);
                draw(ceiling / 2, ceiling)
            }
            Self::DecorrelatedJitter { base_ms, cap_ms } => {
                let previous = previous.map_or(base_ms, millis).max(base_ms);
                draw(base_ms, previous.saturating_mul(3).min(cap_ms))
            }
            Self::Exponential { base_ms, multiplier, cap_ms } => {
                ceiling(base_ms, multiplier, cap_ms, attempt)
            }
        };
        Duration::from_millis(delay)
    }

    /// All delays for this seed, from the first attempt on.
    pub fn schedule(&self, seed: Seed) -> impl Iterator<Item = Duration> + use<> {
        let policy = *self;
        let mut previous = None;
        (1..).map(move |attempt| {
            let delay = policy.delay(attempt, previous, seed);
            previous = Some(delay);
            delay
        })
    }

    /// The delay after attempt number `attempt` (from 1), without knowing the previous delays.
    pub fn delay_of(&self, attempt: u32, seed: Seed) -> Duration {
        let before = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        self.schedule(seed).nth(before).unwrap_or(DELAY_MAX)
    }
}

fn ceiling(base_ms: u64, multiplier: f64, cap_ms: u64, attempt: u32) -> u64 {
    let (initial, cap) = (Duration::from_millis(base_ms), Duration::from_millis(cap_ms));
    millis(Backoff { initial, multiplier, cap }.ceiling(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(policy: RetryPolicy, count: usize) -> Vec<u64> {
        policy.schedule(Seed::new(7)).take(count).map(millis).collect()
    }

    /// The first delays of many contenders.
    fn first(policy: RetryPolicy) -> Vec<u64> {
        (0..2_000).map(|number| millis(policy.delay(1, None, Seed::new(number)))).collect()
    }

    #[test]
    fn fixed_is_fixed_and_exponential_grows_to_its_cap() {
        assert_eq!(delays(RetryPolicy::Fixed { delay_ms: 500 }, 3), [500, 500, 500]);
        let exponential = RetryPolicy::Exponential { base_ms: 100, multiplier: 3.0, cap_ms: 1_000 };
        assert_eq!(delays(exponential, 4), [100, 300, 900, 1_000]);
    }

    #[test]
    fn bounded_jitter_covers_its_band_and_never_leaves_it() {
        let all = first(RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 });
        assert!(all.iter().all(|delay| (350..=650).contains(delay)));
        assert!(all.iter().any(|delay| *delay < 365) && all.iter().any(|delay| *delay > 635));
    }

    #[test]
    fn full_and_equal_jitter_stay_under_the_ceiling_and_equal_above_its_half() {
        let (base_ms, cap_ms) = (100, 1_000);
        let full = first(RetryPolicy::FullJitter { base_ms, cap_ms });
        assert!(full.iter().all(|delay| *delay <= 100) && full.contains(&0));
        let equal = first(RetryPolicy::EqualJitter { base_ms, cap_ms });
        assert!(equal.iter().all(|delay| (50..=100).contains(delay)));
        let late: Vec<u64> = (0..2_000)
            .map(|number| {
                millis(RetryPolicy::EqualJitter { base_ms, cap_ms }.delay(40, None, Seed::new(number)))
            })
            .collect();
        assert!(late.iter().all(|delay| (500..=1_000).contains(delay)));
    }

    #[test]
    fn decorrelated_jitter_depends_on_the_previous_delay() {
        let policy = RetryPolicy::DecorrelatedJitter { base_ms: 10, cap_ms: 2_000 };
        for number in 0..500 {
            let mut before = 10;
            for delay in policy.schedule(Seed::new(number)).take(20).map(millis) {
                assert!((10..=2_000).contains(&delay) && delay <= before * 3, "{delay} after {before}");
                before = delay;
            }
        }
        let seed = Seed::new(3);
        let all: Vec<_> = policy.schedule(seed).take(12).collect();
        let alone: Vec<_> = (1..=12).map(|attempt| policy.delay_of(attempt, seed)).collect();
        assert_eq!(all, alone, "a schedule can be recomputed from any attempt");
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
        for policy in [
            RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 },
            RetryPolicy::FullJitter { base_ms: 500, cap_ms: 5_000 },
            RetryPolicy::EqualJitter { base_ms: 500, cap_ms: 5_000 },
            RetryPolicy::DecorrelatedJitter { base_ms: 500, cap_ms: 5_000 },
        ] {
            let all = |number| policy.schedule(Seed::new(number)).take(10).collect::<Vec<_>>();
            assert_eq!(all(1), all(1));
            assert_ne!(all(1), all(2));
        }
    }

    #[test]
    fn an_invalid_policy_is_rejected() {
        for policy in [
            RetryPolicy::Fixed { delay_ms: 0 },
            RetryPolicy::Fixed { delay_ms: 600_001 },
            RetryPolicy::BoundedJitter { base_ms: 500, percent: 101 },
            RetryPolicy::FullJitter { base_ms: 500, cap_ms: 499 },
            RetryPolicy::Exponential { base_ms: 1, multiplier: 0.5, cap_ms: 10 },
            RetryPolicy::Exponential { base_ms: 1, multiplier: f64::NAN, cap_ms: 10 },
        ] {
            assert!(policy.checked().is_err(), "{policy:?}");
        }
    }
}
