//! Results by when they arrived. A result that has not ended yet is known to last at least as long as its cohort has been
//! observed; without that, an arm would be judged only by its quick results.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Figures, Histogram, ResultEvent};

/// Seconds of arrivals in one cohort, and how long after them it becomes part of a wider one.
const WIDTHS_SEC: [(u64, u64); 3] = [(2, 16), (8, 64), (32, COMPLETE_AFTER_SEC)];

/// Then every bucket with an upper bound (at most 300 s) is observed to its end, also on a replica whose clock is behind.
const COMPLETE_AFTER_SEC: u64 = 320;

/// The cohorts of one arm, the oldest ones as one. Times are seconds since the start of the rollout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cohorts {
    /// The latest event; it decides how the arrivals are divided.
    as_of_sec: u64,
    /// By the first second of their arrivals.
    rows: BTreeMap<u64, Cohort>,
}

/// Results that arrived at about the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Cohort {
    /// Results that found their run busy at their first delivery, and how many of these have reached it.
    deferred: u64,
    came_back: u64,
    /// The ages at which results found their run busy.
    retries: AgeCounts,
    lock_wait: AgeCounts,
    result_latency: AgeCounts,
}

/// How many events there were at which age, by the buckets of `Histogram`. Written as the first bucket that is not
/// empty, and the counts from there to the last that is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub(super) struct AgeCounts([u64; AgeCounts::BUCKETS]);

/// A cohort as it was after a known time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedCohort {
    /// Every result of it has been followed for at least this long.
    pub until_ms: f64,
    pub results: u64,
    /// Of these, results that have not reached their run.
    pub outstanding: u64,
    pub retries: AgeCounts,
    pub lock_wait: AgeCounts,
    pub result_latency: AgeCounts,
}

impl Cohorts {
    /// Counts an event of a result that arrived this long after the start of the rollout.
    pub fn count(&mut self, arrived: Duration, event: &ResultEvent) {
        let as_of = (arrived + event.age()).as_secs();
        if as_of > self.as_of_sec {
            self.age_to(as_of);
        }
        let from = self.slot(arrived.as_secs()).start;
        self.rows.entry(from).or_default().count(event);
    }

    pub fn merge(&mut self, other: &Self) {
        self.age_to(self.as_of_sec.max(other.as_of_sec));
        for (from, cohort) in &other.rows {
            let from = self.slot(*from).start;
            self.rows.entry(from).or_default().merge(cohort);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The cohorts that were followed for at least `at_least`, as they were `at` after the start of the rollout.
    pub(super) fn observed(&self, at: Duration, at_least: Duration) -> Vec<ObservedCohort> {
        let outstanding = self.outstanding();
        let observed = self.rows.iter().zip(outstanding).filter_map(|((from, cohort), outstanding)| {
            let is_complete = *from < self.complete_until();
            let followed = at.checked_sub(Duration::from_secs(self.slot(*from).end));
            let until_ms = match followed.filter(|followed| *followed >= at_least) {
                _ if is_complete => f64::INFINITY,
                followed => followed?.as_secs_f64() * 1_000.0,
            };
            Some(cohort.observed(until_ms, outstanding))
        });
        observed.collect()
    }

    /// Deferred results that have not come back, by cohort. A result may come back on a replica with another clock, and
    /// then it is missing from a neighbour of the cohort that it arrived in.
    fn outstanding(&self) -> Vec<u64> {
        let net = |cohort: &Cohort| cohort.deferred.cast_signed() - cohort.came_back.cast_signed();
        let mut outstanding: Vec<i64> = self.rows.values().map(net).collect();
        for missing in 0..outstanding.len() {
            let mut debt = outstanding[missing].min(0);
            outstanding[missing] -= debt;
            for distance in 1..outstanding.len() {
                for neighbour in [missing.checked_sub(distance), missing.checked_add(distance)] {
                    let Some(other) = neighbour.and_then(|at| outstanding.get_mut(at)) else { continue };
                    let paid = (*other).clamp(0, -debt);
                    *other -= paid;
                    debt += paid;
                }
            }
        }
        outstanding.into_iter().map(i64::cast_unsigned).collect()
    }

    fn age_to(&mut self, as_of_sec: u64) {
        self.as_of_sec = as_of_sec;
        for (from, cohort) in std::mem::take(&mut self.rows) {
            let from = self.slot(from).start;
            self.rows.entry(from).or_default().merge(&cohort);
        }
    }

    /// The seconds of the cohort that this second belongs to. What is one cohort stays one: the bounds between widths are
    /// multiples of the wider one.
    fn slot(&self, second: u64) -> Range<u64> {
        if second < self.complete_until() {
            return 0..self.complete_until();
        }
        let mut narrower = WIDTHS_SEC[0].0;
        for (wider, after) in
            WIDTHS_SEC.iter().skip(1).zip(WIDTHS_SEC).map(|(wide, (_, after))| (wide.0, after))
        {
            if second >= multiple_of(wider, self.as_of_sec.saturating_sub(after)) {
                break;
            }
            narrower = wider;
        }
        let from = multiple_of(narrower, second);
        from..from + narrower
    }

    fn complete_until(&self) -> u64 {
        multiple_of(WIDTHS_SEC[2].0, self.as_of_sec.saturating_sub(COMPLETE_AFTER_SEC))
    }
}

fn multiple_of(width: u64, second: u64) -> u64 {
    second - second % width
}

impl Cohort {
    fn count(&mut self, event: &ResultEvent) {
        match *event {
            ResultEvent::Busy { attempt, waited, .. } => {
                self.deferred += u64::from(attempt == 1);
                self.retries.observe(waited);
            }
            ResultEvent::Settled { attempt, waited, took } => {
                self.came_back += u64::from(attempt > 1);
                self.lock_wait.observe(waited);
                self.result_latency.observe(took);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.deferred += other.deferred;
        self.came_back += other.came_back;
        self.retries.merge(&other.retries);
        self.lock_wait.merge(&other.lock_wait);
        self.result_latency.merge(&other.result_latency);
    }

    fn observed(&self, until_ms: f64, outstanding: u64) -> ObservedCohort {
        let Self { retries, lock_wait, result_latency, .. } = *self;
        let results = lock_wait.count() + outstanding;
        ObservedCohort { until_ms, results, outstanding, retries, lock_wait, result_latency }
    }
}

impl ObservedCohort {
    /// Figures of a release that kept no cohorts: only the results that have ended say something.
    pub(super) fn of_totals(figures: &Figures) -> Self {
        let mut retries = AgeCounts::default();
        retries.0[0] = figures.retries;
        Self {
            until_ms: f64::INFINITY,
            results: figures.results,
            outstanding: 0,
            retries,
            lock_wait: AgeCounts::of(&figures.lock_wait),
            result_latency: AgeCounts::of(&figures.result_latency),
        }
    }
}

impl AgeCounts {
    const BUCKETS: usize = Histogram::BOUNDS_MS.len() + 1;

    fn of(times: &Histogram) -> Self {
        Self(std::array::from_fn(|bucket| times.buckets().nth(bucket).map_or(0, |(_, count)| count)))
    }

    fn observe(&mut self, age: Duration) {
        self.0[Histogram::place_of(age.as_secs_f64() * 1_000.0)] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn at(&self, bucket: usize) -> u64 {
        self.0[bucket]
    }
}

impl From<Vec<u64>> for AgeCounts {
    /// Buckets that this release does not know count as the last.
    fn from(written: Vec<u64>) -> Self {
        let mut counts = Self::default();
        let first = written.first().and_then(|first| usize::try_from(*first).ok()).unwrap_or_default();
        for (place, count) in written.into_iter().skip(1).enumerate() {
            counts.0[first.saturating_add(place).min(Self::BUCKETS - 1)] += count;
        }
        counts
    }
}

impl From<AgeCounts> for Vec<u64> {
    fn from(AgeCounts(counts): AgeCounts) -> Self {
        let Some(first) = counts.iter().position(|count| *count > 0) else { return Self::new() };
        let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
        std::iter::once(first as u64).chain(counts[first..=last].iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::ZERO;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn busy(age: u64) -> ResultEvent {
        ResultEvent::Busy { attempt: 1, waited: seconds(age), delay: seconds(1) }
    }

    fn settled(attempt: u32, age: u64) -> ResultEvent {
        ResultEvent::Settled { attempt, waited: seconds(age), took: seconds(age) }
    }

    fn of(events: impl IntoIterator<Item = (u64, ResultEvent)>) -> Cohorts {
        let mut cohorts = Cohorts::default();
        events.into_iter().for_each(|(arrived, event)| cohorts.count(seconds(arrived), &event));
        cohorts
    }

    #[test]
    fn merging_equals_counting_everything_wherever_it_was_counted() {
        let events: Vec<_> = (0..1_000).map(|second| (second, settled(1, second % 40))).collect();
        let all = of(events.clone());
        for replicas in 2..5 {
            let mut merged = Cohorts::default();
            for replica in 0..replicas {
                merged.merge(&of(events.iter().copied().skip(replica).step_by(replicas)));
            }
            assert_eq!(merged, all);
        }
    }

    #[test]
    fn cohorts_are_few_and_small_however_long_a_rollout_lasts() {
        let mut cohorts = Cohorts::default();
        for second in 0..5_000 {
            for age in [0, 1, 3, 7, 20, 50, 100, 299] {
                cohorts.count(seconds(second), &settled(1, age));
            }
            assert!(cohorts.rows.len() <= 40, "{} after {second} s", cohorts.rows.len());
        }
        // Every bucket of every cohort with a large count.
        for cohort in cohorts.rows.values_mut() {
            let full = AgeCounts([99_999_999; AgeCounts::BUCKETS]);
            *cohort = Cohort {
                deferred: u64::MAX,
                came_back: u64::MAX,
                retries: full,
                lock_wait: full,
                result_latency: full,
            };
        }
        let bytes = serde_json::to_string(&cohorts).unwrap().len();
        assert!(bytes < 32 * 1_024, "{bytes} bytes");
    }

    #[test]
    fn a_cohort_is_known_for_as_long_as_its_last_arrival_was_followed() {
        let cohorts = of([(0, settled(1, 1)), (3, busy(0)), (9, settled(1, 0))]);
        let observed = |at, at_least| -> Vec<(f64, u64, u64)> {
            let observed = cohorts.observed(seconds(at), seconds(at_least));
            observed.iter().map(|row| (row.until_ms, row.results, row.outstanding)).collect()
        };
        assert_eq!(observed(12, 0), [(10_000.0, 1, 0), (8_000.0, 1, 1), (2_000.0, 1, 0)]);
        assert_eq!(observed(12, 8), [(10_000.0, 1, 0), (8_000.0, 1, 1)]);
        assert_eq!(observed(1, 0), []);
    }

    #[test]
    fn after_the_last_bound_everything_is_known_and_one_cohort() {
        let cohorts = of((0..1_000).map(|second| (second, settled(1, 0))));
        let observed = cohorts.observed(seconds(1_000), NO_TIME);
        assert_eq!((observed[0].until_ms, observed[0].results), (f64::INFINITY, 672));
        assert!(observed[1..].iter().all(|row| row.until_ms.is_finite()));
        assert_eq!(observed.iter().map(|row| row.results).sum::<u64>(), 1_000);
    }

    #[test]
    fn a_result_that_comes_back_on_a_replica_with_another_clock_is_not_outstanding() {
        for arrived_there in [1, 3, 5] {
            let mut here = of([(3, busy(0))]);
            here.merge(&of([(arrived_there, settled(2, 1))]));
            assert_eq!(here.outstanding().iter().sum::<u64>(), 0, "{arrived_there}");
        }
        assert_eq!(of([(3, busy(0)), (3, busy(1)), (3, settled(2, 4))]).outstanding(), [1]);
    }
}
