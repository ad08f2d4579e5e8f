//! Compares the arms of a rollout and decides whether to continue, promote or roll back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cohorts::ObservedCohort;
use super::estimate::{Z95, Z99, float};
use super::survival::{Survival, age_of, retries_until};
use super::{Arm, Estimate, Measured, Rollout};
use crate::Timestamp;

/// Processes save their figures once a second: what is younger is not known of all of them.
const REPORTED_AFTER: Duration = Duration::from_secs(2);

/// No guard ends a rollout that is younger.
const OBSERVED_MIN: Duration = Duration::from_secs(10);

/// The share of an arm's results that must be known to have ended before retries per result are compared: a policy may
/// spend its retries early or late.
const ENDED_SHARE: f64 = 0.95;

/// A rollout with its measurements so far.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    pub rollout: &'a Rollout,
    pub measured: &'a Measured,
    pub now: Timestamp,
}

/// What to do with a rollout, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Judgement {
    Continue(String),
    Promote(String),
    RollBack(String),
}

/// The measurements of one arm with confidence intervals. Results that have not ended count as such: the times are estimates
/// of what they will be in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    pub results: u64,
    pub retries: u64,
    /// Deferred results that have not been applied.
    pub outstanding: u64,
    /// Whether at least as many results were observed as the guards require.
    pub has_enough: bool,
    /// Up to the same age of the results in both arms.
    pub retries_per_result: Option<Estimate>,
    /// Scaled to the load of both arms, so that arms of different sizes can be compared.
    pub retries_per_minute: Option<Estimate>,
    pub lock_wait_p95_ms: Option<Estimate>,
    pub lock_wait_p99_ms: Option<Estimate>,
    pub result_latency_p95_ms: Option<Estimate>,
    /// Of the results that found their run busy, the share applied at the second delivery.
    pub first_retry_success: Option<Estimate>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummaries {
    pub control: ArmSummary,
    pub candidate: ArmSummary,
}

/// What is known of an arm.
#[derive(Debug)]
struct ObservedArm {
    arm: Arm,
    cohorts: Vec<ObservedCohort>,
    lock_wait: Survival,
    result_latency: Survival,
}

impl ObservedArm {
    /// Fully measured results and outstanding ones.
    fn samples(&self) -> u64 {
        let samples = |cohort: &ObservedCohort| {
            cohort.result_latency.count().min(cohort.lock_wait.count()) + cohort.outstanding
        };
        self.cohorts.iter().map(samples).sum()
    }

    fn has_ended(&self, within_ms: f64) -> bool {
        self.result_latency.reaches(ENDED_SHARE, within_ms)
    }
}

/// Both arms, and the age of results up to which their retries are compared.
#[derive(Debug)]
struct ObservedArms {
    control: ObservedArm,
    candidate: ObservedArm,
    equal_age_ms: Option<f64>,
}

impl ObservedArms {
    fn retries(&self, arm: &ObservedArm, z: f64) -> Option<Estimate> {
        retries_until(&arm.cohorts, self.equal_age_ms?, z)
    }

    /// Whether nearly all retries are counted.
    fn has_all_retries(&self) -> bool {
        self.equal_age_ms.is_some_and(|age| self.control.has_ended(age) && self.candidate.has_ended(age))
    }
}

impl Trial<'_> {
    pub fn summaries(&self) -> ArmSummaries {
        let arms = self.observed();
        ArmSummaries {
            control: self.summary(&arms, &arms.control, Z95),
            candidate: self.summary(&arms, &arms.candidate, Z95),
        }
    }

    fn summary(&self, arms: &ObservedArms, observed: &ObservedArm, z: f64) -> ArmSummary {
        let figures = self.measured.of(observed.arm);
        let retries_per_result = arms.retries(observed, z);
        let minutes = self.rollout.elapsed(self.now).as_secs_f64() / 60.0;
        let results = float(self.measured.control.results + self.measured.candidate.results);
        let per_minute = (minutes > 0.0).then(|| results / minutes);
        ArmSummary {
            results: figures.results,
            outstanding: figures.outstanding(),
            retries: figures.retries,
            has_enough: observed.samples() >= self.rollout.guards.min_samples,
            retries_per_result,
            retries_per_minute: retries_per_result.zip(per_minute).map(|(rate, load)| rate.scaled(load)),
            lock_wait_p95_ms: observed.lock_wait.estimate(0.95, z),
            lock_wait_p99_ms: observed.lock_wait.estimate(0.99, z),
            result_latency_p95_ms: observed.result_latency.estimate(0.95, z),
            first_retry_success: Estimate::of_share(figures.first_retry_successes, figures.busy_at_first),
        }
    }

    fn observed(&self) -> ObservedArms {
        let (control, candidate) = (self.observed_arm(Arm::Control), self.observed_arm(Arm::Candidate));
        let age = |at_least| {
            let (control, candidate) =
                (age_of(&control.cohorts, at_least), age_of(&candidate.cohorts, at_least));
            control.zip(candidate).map(|(control, candidate)| control.min(candidate))
        };
        let equal_age_ms = age(self.rollout.guards.min_samples).or_else(|| age(1));
        ObservedArms { control, candidate, equal_age_ms }
    }

    fn observed_arm(&self, arm: Arm) -> ObservedArm {
        let (cohorts, figures) = (self.measured.cohorts(arm), self.measured.of(arm));
        let cohorts = if cohorts.is_empty() && figures.results > 0 {
            vec![ObservedCohort::of_totals(figures)]
        } else {
            let at = self.rollout.elapsed(self.now).saturating_sub(REPORTED_AFTER);
            // A result may wait that long at its first delivery, and is counted only then.
            cohorts.observed(at, self.rollout.control.max_wait())
        };
        ObservedArm {
            arm,
            lock_wait: Survival::of(&cohorts, |cohort| &cohort.lock_wait),
            result_latency: Survival::of(&cohorts, |cohort| &cohort.result_latency),
            cohorts,
        }
    }

    pub fn judge(&self) -> Judgement {
        let arms = self.observed();
        if let Some(why) = self.violation(&arms) {
            return Judgement::RollBack(why);
        }
        let has_enough = self.has_enough(&arms.control) && self.has_enough(&arms.candidate);
        let is_over = self.now >= self.rollout.ends_at;
        match (has_enough, is_over) {
            (false, false) => Judgement::Continue(self.too_few(&arms)),
            (false, true) => {
                Judgement::RollBack(format!("the rollout's time is over; {}", self.too_few(&arms)))
            }
            (true, false) => Judgement::Continue("no guard is violated".to_owned()),
            (true, true) => conclude(&arms, &self.summaries()),
        }
    }

    fn has_enough(&self, arm: &ObservedArm) -> bool {
        arm.samples() >= self.rollout.guards.min_samples
    }

    fn too_few(&self, arms: &ObservedArms) -> String {
        format!(
            "too few samples: {} results observed in the control and {} in the candidate; each needs {}",
            arms.control.samples(),
            arms.candidate.samples(),
            self.rollout.guards.min_samples
        )
    }

    /// The guard that the candidate violates with statistical significance. It is asked every second, which calls for a
    /// wider interval than a single look.
    fn violation(&self, arms: &ObservedArms) -> Option<String> {
        if self.rollout.elapsed(self.now) < OBSERVED_MIN {
            return None;
        }
        let control = self.summary(arms, &arms.control, Z99);
        let candidate = self.summary(arms, &arms.candidate, Z99);
        if !candidate.has_enough {
            return None;
        }
        let guards = self.rollout.guards;
        if let (Some(p99), Some(longest)) = (candidate.lock_wait_p99_ms, guards.max_p99_lock_wait_ms)
            && p99.low > float(longest)
        {
            return Some(format!(
                "the candidate's p99 lock wait is {}; the limit is {longest} ms",
                milliseconds(&p99),
            ));
        }
        if !control.has_enough {
            return None;
        }
        let in_ms: fn(&Estimate) -> String = milliseconds;
        let retries = |summary: &ArmSummary| summary.retries_per_result.filter(|_| arms.has_all_retries());
        let guarded = [
            ("p95 lock wait", in_ms, candidate.lock_wait_p95_ms, control.lock_wait_p95_ms),
            ("p99 lock wait", in_ms, candidate.lock_wait_p99_ms, control.lock_wait_p99_ms),
            ("p95 result latency", in_ms, candidate.result_latency_p95_ms, control.result_latency_p95_ms),
            ("number of retries per result", number, retries(&candidate), retries(&control)),
        ];
        guarded.into_iter().find_map(|(metric, format, candidate, control)| {
            let (candidate, control) = (candidate?, control?);
            candidate.exceeds(guards.ratio, &control).then(|| {
                format!(
                    "the candidate's {metric} is {}, the control's {}: more than {} times as much",
                    format(&candidate),
                    format(&control),
                    guards.ratio
                )
            })
        })
    }
}

/// Promotes only if retries and latency both improved.
fn conclude(arms: &ObservedArms, summaries: &ArmSummaries) -> Judgement {
    let value = |estimate: Option<Estimate>| estimate.map_or(0.0, |estimate| estimate.value);
    let compared = |of: fn(&ArmSummary) -> Option<Estimate>| {
        (value(of(&summaries.candidate)), value(of(&summaries.control)))
    };
    let retries = compared(|arm| arm.retries_per_minute);
    let latency = compared(|arm| arm.result_latency_p95_ms);
    let figures = format!(
        "retries per minute {:.2} with the candidate and {:.2} without, p95 result latency {:.0} ms and {:.0} ms",
        retries.0, retries.1, latency.0, latency.1
    );
    // Of a quantile that was not reached, only a lower bound is known.
    let is_known = arms.candidate.result_latency.quantile(0.95).is_some();
    match (retries.0 < retries.1, is_known && latency.0 < latency.1) {
        (true, true) => Judgement::Promote(format!("retries and result latency improved: {figures}")),
        (true, false) => Judgement::RollBack(format!("result latency did not improve: {figures}")),
        (false, true) => Judgement::RollBack(format!("retries did not improve: {figures}")),
        (false, false) => {
            Judgement::RollBack(format!("neither retries nor result latency improved: {figures}"))
        }
    }
}

fn milliseconds(estimate: &Estimate) -> String {
    with_interval(estimate, 0, " ms")
}

fn number(estimate: &Estimate) -> String {
    with_interval(estimate, 2, "")
}

fn with_interval(estimate: &Estimate, digits: usize, unit: &str) -> String {
    let high = estimate.high.map_or_else(|| "…".to_owned(), |high| format!("{high:.digits$}"));
    format!("{:.digits$}{unit} ({:.digits$} to {high})", estimate.value, estimate.low)
}

#[cfg(test)]
mod tests;
