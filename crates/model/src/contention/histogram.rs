//! Times in fixed buckets: cheap to add to, exact to merge, good enough to tell a tail from another.

use serde::{Deserialize, Serialize};

/// What was counted of times, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many were at most the bound of the same place, and above the one before; the last is beyond all bounds.
    counts: Vec<u64>,
    sum_ms: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; Self::BOUNDS_MS.len() + 1], sum_ms: 0.0 }
    }
}

impl Histogram {
    /// The upper ends of the buckets.
    pub const BOUNDS_MS: [f64; 24] = [
        1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 350.0, 500.0, 650.0, 800.0, 1_000.0, 1_500.0, 2_000.0,
        3_000.0, 5_000.0, 7_500.0, 10_000.0, 15_000.0, 30_000.0, 60_000.0, 120_000.0, 300_000.0,
    ];

    pub fn observe(&mut self, millis: f64) {
        self.observe_many(millis, 1);
    }

    /// The same time, so often.
    #[expect(clippy::cast_precision_loss, reason = "a count that a double cannot hold is not reached")]
    pub fn observe_many(&mut self, millis: f64, times: u64) {
        let place = Self::BOUNDS_MS.iter().position(|bound| millis <= *bound);
        self.counts[place.unwrap_or(Self::BOUNDS_MS.len())] += times;
        self.sum_ms += millis * times as f64;
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    #[must_use]
    pub fn sum_ms(&self) -> f64 {
        self.sum_ms
    }

    /// The upper end of each bucket with what is in it; the last has no end.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        Self::BOUNDS_MS.into_iter().chain([f64::INFINITY]).zip(self.counts.iter().copied())
    }

    /// Adds what another has counted. One of another shape, from another release, is left out.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() == self.counts.len() {
            self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
            self.sum_ms += other.sum_ms;
        }
    }

    /// The ends of the bucket in which number `rank` (from 1) lies, by size; the last has no upper end. None if there
    /// are not so many.
    #[must_use]
    pub fn bucket_of(&self, rank: u64) -> Option<(f64, Option<f64>)> {
        let (mut before, mut low) = (0, 0.0);
        for (high, inside) in self.buckets() {
            before += inside;
            if rank >= 1 && before >= rank {
                return Some((low, Some(high).filter(|high| high.is_finite())));
            }
            low = high;
        }
        None
    }

    /// The time below which `share` (0 to 1) of all lie, as if they were spread evenly in their bucket. None of nothing.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a count that a double cannot hold is not reached")]
        let rank = share.clamp(0.0, 1.0) * count as f64;
        let (mut before, mut low) = (0.0, 0.0);
        for (high, inside) in self.buckets() {
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            let inside = inside as f64;
            if inside > 0.0 && before + inside >= rank {
                let within = ((rank - before) / inside).clamp(0.0, 1.0);
                return Some(if high.is_finite() { low + (high - low) * within } else { low });
            }
            before += inside;
            low = if high.is_finite() { high } else { low };
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = f64>) -> Histogram {
        let mut histogram = Histogram::default();
        times.into_iter().for_each(|time| histogram.observe(time));
        histogram
    }

    #[test]
    fn quantiles_lie_in_the_bucket_of_their_rank() {
        let histogram = of((0..95).map(|_| 4.0).chain((0..5).map(|_| 900.0)));
        assert!(histogram.quantile(0.5).unwrap() <= 5.0);
        assert!(histogram.quantile(0.99).unwrap() > 800.0);
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(
            of([1e9]).quantile(0.5),
            Some(300_000.0),
            "beyond all bounds is at least the last of them"
        );
    }

    #[test]
    fn two_halves_make_the_whole() {
        let (mut one, other) = (of([1.0, 30.0]), of([700.0, 700.0, 4.0]));
        one.merge(&other);
        assert_eq!(one, of([1.0, 30.0, 700.0, 700.0, 4.0]));
        assert_eq!((one.count(), one.sum_ms()), (5, 1_435.0));
    }
}
