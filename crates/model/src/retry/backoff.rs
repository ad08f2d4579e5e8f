//! Exponential backoff of a step's retries.

use std::time::Duration;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::Seed;
use crate::time::millis;

crate::named_enum! {
    /// Where between nothing and its ceiling a delay is drawn.
    pub enum Jitter {
        /// In the upper half.
        Equal = "equal_jitter",
        /// Anywhere.
        Full = "full_jitter",
        /// Nowhere: always the ceiling.
        Fixed = "fixed",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    pub initial: Duration,
    pub multiplier: f64,
    pub cap: Duration,
}

impl Backoff {
    /// The maximum delay after failure number `failure` (from 1).
    pub fn ceiling(&self, failure: u32) -> Duration {
        let exponent = i32::try_from(failure.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial.as_secs_f64() * self.multiplier.powi(exponent);
        // Compare as floats first, because a huge product would overflow a duration.
        if grown.is_finite() && grown < self.cap.as_secs_f64() {
            Duration::from_secs_f64(grown)
        } else {
            self.cap
        }
    }

    /// The delay after failure number `failure` (from 1), derived from the seed.
    pub fn delay(&self, jitter: Jitter, failure: u32, seed: Seed) -> Duration {
        let ceiling = millis(self.ceiling(failure));
        match jitter {
            Jitter::Equal => Duration::from_millis(seed.rng().random_range(ceiling.div_ceil(2)..=ceiling)),
            Jitter::Full => self.full_jitter(failure, seed),
            Jitter::Fixed => Duration::from_millis(ceiling),
        }
    }

    /// A uniform delay between zero and the ceiling, derived from the seed.
    pub fn full_jitter(&self, failure: u32, seed: Seed) -> Duration {
        let ceiling = millis(self.ceiling(failure));
        Duration::from_millis(seed.rng().random_range(0..=ceiling))
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
    fn equal_jitter_keeps_at_least_half_and_fixed_all_of_the_ceiling() {
        let delays = |jitter| (0..1_000).map(move |seed| BACKOFF.delay(jitter, 4, Seed::new(seed)));
        let (half, whole) = (Duration::from_secs(4), Duration::from_secs(8));
        assert!(delays(Jitter::Equal).all(|delay| (half..=whole).contains(&delay)));
        let spread =
            |from: u64, until: u64| delays(Jitter::Equal).any(|delay| (from..until).contains(&millis(delay)));
        assert!(spread(4_000, 4_500) && spread(7_500, 8_001));
        assert!(delays(Jitter::Fixed).all(|delay| delay == whole));
        assert!(delays(Jitter::Full).any(|delay| delay < half));
        let one = Backoff { initial: Duration::from_millis(1), ..BACKOFF };
        assert_eq!(one.delay(Jitter::Equal, 1, Seed::new(7)), Duration::from_millis(1));
    }

    #[test]
    fn jitter_stays_under_the_ceiling_and_spreads() {
        let delays: Vec<_> = (0..1_000).map(|seed| BACKOFF.full_jitter(4, Seed::new(seed))).collect();
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(8)));
        assert!(delays.iter().any(|delay| *delay < Duration::from_secs(1)));
        assert!(delays.iter().any(|delay| *delay > Duration::from_secs(7)));
    }
}
