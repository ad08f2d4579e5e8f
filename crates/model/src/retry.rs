//! How long to wait before trying again: pure functions of a policy, the attempt and a recorded seed.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::time::millis;
use crate::{RunId, StepKey};

/// How delays grow from one try to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    pub initial: Duration,
    pub multiplier: f64,
    pub cap: Duration,
}

impl Backoff {
    /// The longest that the try after failure number `failure` (from 1) may wait.
    #[must_use]
    pub fn ceiling(&self, failure: u32) -> Duration {
        let exponent = i32::try_from(failure.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial.as_secs_f64() * self.multiplier.powi(exponent);
        // Compared as floats first: a huge product must become the cap and not an overflow.
        if grown.is_finite() && grown < self.cap.as_secs_f64() {
            Duration::from_secs_f64(grown)
        } else {
            self.cap
        }
    }

    /// Full jitter: anywhere between nothing and the ceiling, the same for the same seed.
    #[must_use]
    pub fn full_jitter(&self, failure: u32, seed: Seed) -> Duration {
        let ceiling = millis(self.ceiling(failure));
        Duration::from_millis(seed.rng().random_range(0..=ceiling))
    }
}

/// Where jitter comes from. Written down beside each use, so that the delay can be computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(u64);

impl Seed {
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The seed of one retry: derived from what is retried, so that two contenders never share one by accident.
    #[must_use]
    pub fn of_retry(run: RunId, step: &StepKey, failure: u32) -> Self {
        let hash = blake3::hash(format!("retry\n{run}\n{step}\n{failure}").as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        // Kept below 2^53, so that the JSON in which it is recorded shows it unrounded everywhere.
        Self(u64::from_le_bytes(bytes) >> 11)
    }

    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { initial: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(30) };

    #[test]
    fn the_ceiling_grows_and_stops_at_the_cap() {
        let ceilings: Vec<u64> =
            [1, 2, 3, 5, 6, 4_000_000_000].map(|n| BACKOFF.ceiling(n).as_secs()).to_vec();
        assert_eq!(ceilings, [1, 2, 4, 16, 30, 30]);
    }

    #[test]
    fn the_same_seed_gives_the_same_delay() {
        let delays = |number| (1..9).map(|n| BACKOFF.full_jitter(n, Seed::new(number))).collect::<Vec<_>>();
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }

    #[test]
    fn jitter_stays_under_the_ceiling_and_spreads() {
        let delays: Vec<_> = (0..1_000).map(|seed| BACKOFF.full_jitter(4, Seed::new(seed))).collect();
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(8)));
        assert!(delays.iter().any(|delay| *delay < Duration::from_secs(1)));
        assert!(delays.iter().any(|delay| *delay > Duration::from_secs(7)));
    }

    #[test]
    fn different_steps_of_a_run_get_different_seeds() {
        let run = RunId::new(crate::Timestamp::ZERO, [1; 10]);
        let seed = |item| Seed::of_retry(run, &StepKey::item(&"fetch".parse().unwrap(), item), 1);
        assert_ne!(seed(0), seed(1));
    }
}
