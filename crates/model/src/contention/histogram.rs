//! Durations in fixed buckets: cheap to update and exact to merge.

use serde::{Deserialize, Serialize};

use super::estimate::float;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// One count per bound of `BOUNDS_MS`, and one for durations above the last bound.
    counts: Vec<u64>,
    sum_ms: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; Self::BOUNDS_MS.len() + 1], sum_ms: 0.0 }
    }
}

impl Histogram {
    /// The upper bounds of the buckets.
    pub const BOUNDS_MS: [f64; 24] = [
        1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 350.0, 500.0, 650.0, 800.0, 1_000.0, 1_500.0, 2_000.0,
        3_000.0, 5_000.0, 7_500.0, 10_000.0, 15_000.0, 30_000.0, 60_000.0, 120_000.0, 300_000.0,
    ];

    pub fn observe(&mut self, millis: f64) {
        self.counts[Self::place_of(millis)] += 1;
        self.sum_ms += millis;
    }

    /// The bucket of a duration.
    pub(super) fn place_of(millis: f64) -> usize {
        Self::BOUNDS_MS.iter().position(|bound| millis <= *bound).unwrap_or(Self::BOUNDS_MS.len())
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum_ms(&self) -> f64 {
        self.sum_ms
    }

    /// The upper bound and count of each bucket; the last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        Self::BOUNDS_MS.into_iter().chain([f64::INFINITY]).zip(self.counts.iter().copied())
    }

    /// Adds another histogram. One with other buckets, from another release, is ignored.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() == self.counts.len() {
            self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
            self.sum_ms += other.sum_ms;
        }
    }

    /// The quantile at `share` (0 to 1), interpolated linearly within its bucket. None without samples.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * float(count);
        let (mut before, mut low) = (0.0, 0.0);
        for (high, inside) in self.buckets() {
            let inside = float(inside);
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
    fn a_quantile_lies_in_the_bucket_of_its_rank() {
        let histogram = of((0..95).map(|_| 4.0).chain((0..5).map(|_| 900.0)));
        assert!(histogram.quantile(0.5).unwrap() <= 5.0);
        assert!(histogram.quantile(0.99).unwrap() > 800.0);
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(of([1e9]).quantile(0.5), Some(300_000.0), "above all bounds counts as the last bound");
    }

    #[test]
    fn merging_equals_observing_everything() {
        let (mut one, other) = (of([1.0, 30.0]), of([700.0, 700.0, 4.0]));
        one.merge(&other);
        assert_eq!(one, of([1.0, 30.0, 700.0, 700.0, 4.0]));
        assert_eq!((one.count(), one.sum_ms()), (5, 1_435.0));
    }
}
