//! Estimates with confidence intervals.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Histogram;

/// The normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.96;

/// A value with its 95 % confidence interval.
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
    pub fn of_rate(count: u64, per: f64) -> Option<Self> {
        if per <= 0.0 {
            return None;
        }
        let byar =
            |count: f64, z: f64| count * (1.0 - 1.0 / (9.0 * count) + z / (3.0 * count.sqrt())).powi(3);
        let counted = float(count);
        let low = if count == 0 { 0.0 } else { byar(counted, -Z).max(0.0) };
        Some(Self { value: counted / per, low: low / per, high: Some(byar(counted + 1.0, Z) / per) })
    }

    /// The share of `some` in `all` (Wilson score interval). None if `all` is zero.
    pub fn of_share(some: u64, all: u64) -> Option<Self> {
        if all == 0 {
            return None;
        }
        // The two counts may come from processes that reported at different times, so `some` may exceed `all`.
        let (all, share) = (float(all), float(some.min(all)) / float(all));
        let middle = share + Z * Z / (2.0 * all);
        let half = Z * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
        let scale = 1.0 + Z * Z / all;
        let (low, high) = ((middle - half) / scale, (middle + half) / scale);
        // Rounding must not put the share outside of its own interval.
        Some(Self { value: share, low: low.clamp(0.0, share), high: Some(high.clamp(share, 1.0)) })
    }

    /// The quantile at `share`, bounded by the order statistics around it (binomial). The bounds are those of the
    /// histogram's buckets.
    pub fn of_quantile(times: &Histogram, share: f64) -> Option<Self> {
        let value = times.quantile(share)?;
        let (low, high) = ranks(times.count(), share);
        let low = times.bucket_of(low).map_or(0.0, |(low, _)| low);
        let high = high.and_then(|rank| times.bucket_of(rank)).and_then(|(_, high)| high);
        Some(Self { value, low, high })
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high.map(|high| high * factor) }
    }

    /// Whether it is significantly more than `ratio` times the other: their intervals do not overlap.
    pub fn exceeds(&self, ratio: f64, other: &Self) -> bool {
        other.high.is_some_and(|high| self.low > ratio * high)
    }
}

/// Up to this count the binomial is summed exactly; above it, the normal approximation is good enough.
const EXACT_MAX: u64 = 5_000;

/// The probability of each tail.
const TAIL: f64 = 0.025;

/// The ranks of the order statistics below and above the quantile. The upper one is absent if there are too few samples.
fn ranks(count: u64, share: f64) -> (u64, Option<u64>) {
    let (all, beyond) = (float(count), 1.0 - share);
    if count > EXACT_MAX {
        let (middle, half) = (all * share, Z * (all * share * beyond).sqrt());
        return (whole(middle - half), Some(whole(middle + half) + 1).filter(|rank| *rank <= count));
    }
    // Sum the distribution of the number of samples beyond the quantile.
    let mut chance = share.powf(all);
    let (mut fewer, mut beyond_at_least) = (0.0, None);
    for number in 0..=count {
        if fewer + chance > TAIL && beyond_at_least.is_none() {
            beyond_at_least = Some(number);
        }
        if fewer >= 1.0 - TAIL {
            let above = beyond_at_least.and_then(|number| number.checked_sub(1));
            return (count.saturating_sub(number) + 1, above.map(|number| count - number));
        }
        fewer += chance;
        chance *= (all - float(number)) / (float(number) + 1.0) * beyond / share;
    }
    (0, beyond_at_least.and_then(|number| number.checked_sub(1)).map(|number| count - number))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is between zero and a count, and the cast saturates"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 0.01 * expected.max(1.0)
    }

    #[test]
    fn rates_have_the_intervals_of_the_poisson_tables() {
        for (count, low, high) in [(0, 0.0, 3.69), (10, 4.80, 18.39), (100, 81.36, 121.63)] {
            let found = Estimate::of_rate(count, 1.0).unwrap();
            assert!(is_near(found.low, low) && is_near(found.high.unwrap(), high), "{count}: {found:?}");
        }
        let half = Estimate::of_rate(10, 20.0).unwrap();
        assert!(is_near(half.value, 0.5) && is_near(half.low, 0.24));
        assert_eq!(Estimate::of_rate(3, 0.0), None);
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
    fn a_quantile_lies_between_its_order_statistics() {
        let mut times = Histogram::default();
        (0..1_000).for_each(|_| times.observe(40.0));
        let p95 = Estimate::of_quantile(&times, 0.95).unwrap();
        assert!(p95.low <= p95.value && Some(p95.value) <= p95.high, "{p95:?}");
        assert_eq!((p95.low, p95.high), (25.0, Some(50.0)));
        assert_eq!(Estimate::of_quantile(&Histogram::default(), 0.95), None);
    }

    #[test]
    fn a_quantile_of_too_few_samples_has_no_upper_bound() {
        let of = |count| {
            let mut times = Histogram::default();
            (0..count).for_each(|_| times.observe(40.0));
            Estimate::of_quantile(&times, 0.99).unwrap()
        };
        assert_eq!(of(200).high, None, "at most two samples lie above it");
        assert_eq!(of(1_000).high, Some(50.0));
    }

    #[test]
    fn the_ranks_are_those_of_the_binomial_tables() {
        assert_eq!(ranks(71, 0.95).1, None, "0.95 to the power of 71 is more than 2.5 %");
        assert_eq!(ranks(72, 0.95).1, Some(72));
        assert_eq!(ranks(100, 0.5), (40, Some(61)));
        assert_eq!(ranks(1_000, 0.95), (936, Some(964)));
        assert_eq!(ranks(0, 0.95), (0, None));
        let (low, high) = ranks(5_001, 0.95);
        let exact = ranks(5_000, 0.95);
        assert!(
            low.abs_diff(exact.0) <= 3 && high.unwrap().abs_diff(exact.1.unwrap()) <= 3,
            "{low} {high:?} {exact:?}"
        );
    }

    #[test]
    fn an_estimate_exceeds_another_only_if_the_intervals_do_not_overlap() {
        let rate = |count| Estimate::of_rate(count, 100.0).unwrap();
        assert!(!rate(40).exceeds(2.0, &rate(10)), "0.40 exceeds 2 × 0.18, but its lower bound does not");
        assert!(rate(60).exceeds(2.0, &rate(10)));
        let unbounded = Estimate { value: 1.0, low: 0.0, high: None };
        assert!(!rate(1_000_000).exceeds(2.0, &unbounded));
    }
}
