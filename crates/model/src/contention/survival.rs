//! How long results last if some have not ended yet: the Kaplan–Meier estimate over buckets, and the mean number of retries
//! by age. Both use of each cohort only the ages that it was observed at, so neither depends on how much is outstanding.

use super::Histogram;
use super::cohorts::{AgeCounts, ObservedCohort};
use super::estimate::{Estimate, float, wilson};

/// Which ages of a cohort are meant.
pub(super) type Times = fn(&ObservedCohort) -> &AgeCounts;

#[derive(Debug)]
pub(super) struct Survival {
    steps: Vec<SurvivalStep>,
}

/// A bucket that was observed to its end.
#[derive(Debug)]
struct SurvivalStep {
    low_ms: f64,
    high_ms: f64,
    /// Results that were followed at least until the end of the bucket, whether they had ended or not.
    followed: u64,
    /// The share of results that last longer than the bucket's lower and upper bound.
    before: f64,
    after: f64,
}

impl Survival {
    pub(super) fn of(cohorts: &[ObservedCohort], times: Times) -> Self {
        let (mut steps, mut before, mut low_ms) = (Vec::new(), 1.0, 0.0);
        let mut at_risk_of: Vec<u64> = cohorts.iter().map(|cohort| cohort.results).collect();
        for (bucket, high_ms) in Histogram::BOUNDS_MS.into_iter().enumerate() {
            let (mut followed, mut at_risk, mut ended) = (0, 0, 0);
            for (cohort, left) in cohorts.iter().zip(&mut at_risk_of) {
                let ends = times(cohort).at(bucket);
                if cohort.until_ms >= high_ms {
                    followed += cohort.results;
                    at_risk += *left;
                    ended += ends;
                }
                *left = left.saturating_sub(ends);
            }
            // All have ended, or of those that have not, none was followed for so long.
            if at_risk == 0 {
                break;
            }
            let after = before * (1.0 - float(ended) / float(at_risk));
            steps.push(SurvivalStep { low_ms, high_ms, followed, before, after });
            (before, low_ms) = (after, high_ms);
        }
        Self { steps }
    }

    /// The time that this share (0 to 1) of the results ends within, interpolated linearly within its bucket. None if too
    /// few were followed for so long.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let beyond = 1.0 - share;
        let step = self.steps.iter().find(|step| step.after <= beyond)?;
        let within = ((step.before - beyond) / (step.before - step.after)).clamp(0.0, 1.0);
        Some(step.low_ms + (step.high_ms - step.low_ms) * within)
    }

    /// The quantile with its interval, whose ends are bounds of buckets. Without enough results that were followed for so
    /// long, its value is the longest time that it is known to exceed.
    pub(super) fn estimate(&self, share: f64, z: f64) -> Option<Estimate> {
        let (beyond, last) = (1.0 - share, self.steps.last()?.high_ms);
        let interval = |step: &SurvivalStep| wilson(step.after, float(step.followed), z);
        let low = self.steps.iter().find(|step| interval(step).0 <= beyond).map_or(last, |step| step.low_ms);
        let high = self.steps.iter().find(|step| interval(step).1 <= beyond).map(|step| step.high_ms);
        Some(Estimate { value: self.quantile(share).unwrap_or(last), low, high })
    }

    /// Whether this share of the results is known to end within this time.
    pub(super) fn reaches(&self, share: f64, within_ms: f64) -> bool {
        self.steps.iter().any(|step| step.high_ms <= within_ms && step.after <= 1.0 - share)
    }
}

/// The longest age that at least this number of results were followed to, of the bounds of the buckets.
pub(super) fn age_of(cohorts: &[ObservedCohort], at_least: u64) -> Option<f64> {
    let has_enough = |bound: &f64| {
        followed_until(cohorts, *bound).map(|cohort| cohort.results).sum::<u64>() >= at_least.max(1)
    };
    Histogram::BOUNDS_MS.into_iter().rev().find(has_enough)
}

/// Retries per result up to this age. The number of retries of one result varies about as much as a geometric one does,
/// which is more than a Poisson one.
pub(super) fn retries_until(cohorts: &[ObservedCohort], age_ms: f64, z: f64) -> Option<Estimate> {
    let (mut retries, mut each, mut results) = (0.0, 0.0, 0.0);
    for (bucket, bound) in Histogram::BOUNDS_MS.into_iter().enumerate().filter(|(_, bound)| *bound <= age_ms)
    {
        let followed = followed_until(cohorts, bound);
        results = float(followed.clone().map(|cohort| cohort.results).sum());
        if results <= 0.0 {
            return None;
        }
        let in_bucket = float(followed.map(|cohort| cohort.retries.at(bucket)).sum());
        retries += in_bucket;
        each += in_bucket / results;
    }
    if retries > 0.0 {
        results = retries / each;
    }
    let spread = 1.0 + each;
    Estimate::of_rate(retries / spread, results / spread, z)
}

fn followed_until(cohorts: &[ObservedCohort], age_ms: f64) -> impl Iterator<Item = &ObservedCohort> + Clone {
    cohorts.iter().filter(move |cohort| cohort.until_ms >= age_ms)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::estimate::Z95;
    use super::super::{Cohorts, ResultEvent};
    use super::*;

    /// Results that arrived at this second and ended, if at all, after these milliseconds.
    fn cohorts(arrivals: &[(u64, Option<u64>, u32)]) -> Cohorts {
        let mut cohorts = Cohorts::default();
        for (second, ended_after_ms, results) in arrivals {
            let arrived = Duration::from_secs(*second);
            for _ in 0..*results {
                let busy = ResultEvent::Busy { attempt: 1, waited: Duration::ZERO, delay: Duration::ZERO };
                cohorts.count(arrived, &busy);
                if let Some(took) = ended_after_ms.map(Duration::from_millis) {
                    cohorts.count(arrived, &ResultEvent::Settled { attempt: 2, waited: took, took });
                }
            }
        }
        cohorts
    }

    fn survival(arrivals: &[(u64, Option<u64>, u32)], at_sec: u64) -> Survival {
        let observed = cohorts(arrivals).observed(Duration::from_secs(at_sec), Duration::ZERO);
        Survival::of(&observed, |cohort| &cohort.lock_wait)
    }

    #[test]
    fn without_outstanding_results_it_is_the_share_that_ended() {
        let survival = survival(&[(0, Some(4), 95), (0, Some(900), 5)], 60);
        assert!((survival.quantile(0.5).unwrap() - (2.0 + 3.0 * 50.0 / 95.0)).abs() < 1e-9);
        assert_eq!(survival.quantile(0.95), Some(5.0));
        assert!(survival.quantile(0.99).unwrap() > 800.0);
        assert!(
            survival.reaches(0.95, 5.0) && !survival.reaches(0.96, 800.0) && survival.reaches(1.0, 1_000.0)
        );
    }

    #[test]
    fn results_that_have_not_ended_count_at_the_ages_that_they_were_observed_at() {
        // Nine in ten end after four seconds, whatever was seen of them. The last ones were followed for two seconds only.
        let survival = survival(&[(0, Some(4_000), 90), (0, Some(9_000), 10), (8, None, 900)], 12);
        assert!((survival.quantile(0.5).unwrap() - (3_000.0 + 2_000.0 * 0.5 / 0.9)).abs() < 1e-6);
        assert!(survival.quantile(0.95).unwrap() > 7_500.0);
    }

    #[test]
    fn a_quantile_that_was_not_reached_has_a_lower_bound_only() {
        let survival = survival(&[(0, Some(400), 80), (0, None, 20)], 5);
        assert_eq!(survival.quantile(0.95), None);
        let p95 = survival.estimate(0.95, Z95).unwrap();
        assert_eq!((p95.value, p95.low, p95.high), (3_000.0, 3_000.0, None));
        assert!(super::Survival::of(&[], |cohort| &cohort.lock_wait).estimate(0.95, Z95).is_none());
    }

    #[test]
    fn the_ends_of_an_interval_are_bounds_of_buckets_and_need_enough_samples() {
        let of = |results, share| survival(&[(0, Some(40), results)], 60).estimate(share, Z95).unwrap();
        assert_eq!((of(1_000, 0.95).low, of(1_000, 0.95).high), (25.0, Some(50.0)));
        assert_eq!(
            (of(72, 0.95).high, of(73, 0.95).high),
            (None, Some(50.0)),
            "0.95 to the power of 72 is 2.5 %"
        );
        assert_eq!((of(380, 0.99).high, of(381, 0.99).high), (None, Some(50.0)));
    }

    #[test]
    fn retries_are_those_of_results_that_were_followed_for_as_long() {
        let mut cohorts = Cohorts::default();
        // One retry a second for ten seconds, of 10 results that have ended and of 90 of which three seconds were seen.
        for (arrived, results, retries) in [(0, 10, 10), (6, 90, 4)] {
            for attempt in (0..results).flat_map(|_| 1..=retries) {
                let waited = Duration::from_secs(u64::from(attempt) - 1);
                let event = ResultEvent::Busy { attempt, waited, delay: Duration::from_secs(1) };
                cohorts.count(Duration::from_secs(arrived), &event);
            }
        }
        let observed = cohorts.observed(Duration::from_secs(11), Duration::ZERO);
        let until = |age_ms| retries_until(&observed, age_ms, Z95).unwrap().value;
        assert!((until(3_000.0) - 4.0).abs() < 1e-9 && (until(7_500.0) - 8.0).abs() < 1e-9);
        assert_eq!((age_of(&observed, 100), age_of(&observed, 10)), (Some(3_000.0), Some(7_500.0)));
        assert_eq!(age_of(&observed, 101), None);
    }
}
