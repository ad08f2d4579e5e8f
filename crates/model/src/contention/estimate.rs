//! Estimates with confidence intervals.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The normal quantile of a two-sided 95 % interval.
pub(super) const Z95: f64 = 1.96;

/// The same of a 99 % interval.
pub(super) const Z99: f64 = 2.576;

/// A value with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    /// Absent if there are too few samples for an upper bound.
    #[schema(required)]
    pub high: Option<f64>,
}

impl Estimate {
    /// A rate of `count` events per `per` units (Poisson, Byar's approximation). None if `per` is zero.
    pub(super) fn of_rate(count: f64, per: f64, z: f64) -> Option<Self> {
        if per <= 0.0 {
            return None;
        }
        let byar =
            |count: f64, z: f64| count * (1.0 - 1.0 / (9.0 * count) + z / (3.0 * count.sqrt())).powi(3);
        let low = if count > 0.0 { byar(count, -z).max(0.0) } else { 0.0 };
        Some(Self { value: count / per, low: low / per, high: Some(byar(count + 1.0, z) / per) })
    }

    /// The share of `some` in `all`. None if `all` is zero.
    pub(super) fn of_share(some: u64, all: u64) -> Option<Self> {
        if all == 0 {
            return None;
        }
        // The two counts may come from processes that reported at different times, so `some` may exceed `all`.
        let (all, value) = (float(all), float(some.min(all)) / float(all));
        let (low, high) = wilson(value, all, Z95);
        Some(Self { value, low, high: Some(high) })
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high.map(|high| high * factor) }
    }

    /// Whether it is significantly more than `ratio` times the other: their intervals do not overlap.
    pub fn exceeds(&self, ratio: f64, other: &Self) -> bool {
        other.high.is_some_and(|high| self.low > ratio * high)
    }
}

/// The Wilson score interval of a share of `all` samples.
pub(super) fn wilson(share: f64, all: f64, z: f64) -> (f64, f64) {
    let middle = share + z * z / (2.0 * all);
    let half = z * (share * (1.0 - share) / all + z * z / (4.0 * all * all)).sqrt();
    let scale = 1.0 + z * z / all;
    // Rounding must not put the share outside of its own interval.
    (((middle - half) / scale).clamp(0.0, share), ((middle + half) / scale).clamp(share, 1.0))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 0.01 * expected.max(1.0)
    }

    #[test]
    fn rates_have_the_intervals_of_the_poisson_tables() {
        for (count, low, high) in [(0.0, 0.0, 3.69), (10.0, 4.80, 18.39), (100.0, 81.36, 121.63)] {
            let found = Estimate::of_rate(count, 1.0, Z95).unwrap();
            assert!(is_near(found.low, low) && is_near(found.high.unwrap(), high), "{count}: {found:?}");
        }
        let half = Estimate::of_rate(10.0, 20.0, Z95).unwrap();
        assert!(is_near(half.value, 0.5) && is_near(half.low, 0.24));
        assert_eq!(Estimate::of_rate(3.0, 0.0, Z95), None);
    }

    #[test]
    fn shares_stay_between_none_and_all() {
        let all = Estimate::of_share(20, 20).unwrap();
        assert!(is_near(all.low, 0.839) && all.high == Some(1.0), "{all:?}");
        let none = Estimate::of_share(0, 20).unwrap();
        assert!(none.low.abs() < 1e-9 && is_near(none.high.unwrap(), 0.161), "{none:?}");
        assert_eq!(Estimate::of_share(0, 0), None);
        assert_eq!(
            Estimate::of_share(54, 49),
            Estimate::of_share(49, 49),
            "the counts come from different reports"
        );
    }

    #[test]
    fn an_estimate_exceeds_another_only_if_the_intervals_do_not_overlap() {
        let rate = |count| Estimate::of_rate(count, 100.0, Z95).unwrap();
        assert!(!rate(40.0).exceeds(2.0, &rate(10.0)), "0.40 exceeds 2 × 0.18, but its lower bound does not");
        assert!(rate(60.0).exceeds(2.0, &rate(10.0)));
        let unbounded = Estimate { value: 1.0, low: 0.0, high: None };
        assert!(!rate(1_000_000.0).exceeds(2.0, &unbounded));
    }
}
