//! Compares the arms of a rollout and decides whether to continue, promote or roll back.

use super::estimate::float;
use super::{Arm, Estimate, Figures, Measured, Rollout};
use crate::Timestamp;

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

/// The measurements of one arm with confidence intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmSummary {
    pub results: u64,
    pub retries: u64,
    /// Deferred results that have not been applied. Durations include them with their deferral as wait.
    pub outstanding: u64,
    /// Whether there are at least as many results as the guards require.
    pub has_enough: bool,
    pub retries_per_result: Option<Estimate>,
    /// Scaled to the load of both arms, so that arms of different sizes can be compared.
    pub retries_per_minute: Option<Estimate>,
    pub lock_wait_p95_ms: Option<Estimate>,
    pub lock_wait_p99_ms: Option<Estimate>,
    pub result_latency_p95_ms: Option<Estimate>,
    /// Of the results that found their run busy, the share applied at the second delivery.
    pub first_retry_success: Option<Estimate>,
}

impl Trial<'_> {
    pub fn summary(&self, arm: Arm) -> ArmSummary {
        let figures = self.measured.of(arm);
        let retries_per_result = Estimate::of_rate(figures.retries, float(figures.results));
        let minutes = self.rollout.elapsed(self.now).as_secs_f64() / 60.0;
        let results = float(self.measured.control.results + self.measured.candidate.results);
        let per_minute = (minutes > 0.0).then(|| results / minutes);
        let lock_wait = figures.with_outstanding(&figures.lock_wait);
        ArmSummary {
            results: figures.results,
            outstanding: figures.outstanding(),
            retries: figures.retries,
            has_enough: samples(figures) >= self.rollout.guards.min_samples,
            retries_per_result,
            retries_per_minute: retries_per_result.zip(per_minute).map(|(rate, load)| rate.scaled(load)),
            lock_wait_p95_ms: Estimate::of_quantile(&lock_wait, 0.95),
            lock_wait_p99_ms: Estimate::of_quantile(&lock_wait, 0.99),
            result_latency_p95_ms: Estimate::of_quantile(
                &figures.with_outstanding(&figures.result_latency),
                0.95,
            ),
            first_retry_success: Estimate::of_share(figures.first_retry_successes, figures.busy_at_first),
        }
    }

    pub fn judge(&self) -> Judgement {
        let (control, candidate) = (self.summary(Arm::Control), self.summary(Arm::Candidate));
        if let Some(why) = self.violation(&control, &candidate) {
            return Judgement::RollBack(why);
        }
        let has_enough = control.has_enough && candidate.has_enough;
        let is_over = self.now >= self.rollout.ends_at;
        match (has_enough, is_over) {
            (false, false) => Judgement::Continue(self.too_few(&control, &candidate)),
            (false, true) => {
                let why = format!("the rollout's time is over; {}", self.too_few(&control, &candidate));
                Judgement::RollBack(why)
            }
            (true, false) => Judgement::Continue("no guard is violated".to_owned()),
            (true, true) => conclude(&control, &candidate),
        }
    }

    fn too_few(&self, control: &ArmSummary, candidate: &ArmSummary) -> String {
        format!(
            "too few samples: {} results in the control and {} in the candidate; each needs {}",
            control.results, candidate.results, self.rollout.guards.min_samples
        )
    }

    /// The guard that the candidate violates with statistical significance.
    fn violation(&self, control: &ArmSummary, candidate: &ArmSummary) -> Option<String> {
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
        let guarded = [
            ("p95 lock wait", in_ms, candidate.lock_wait_p95_ms, control.lock_wait_p95_ms),
            ("p99 lock wait", in_ms, candidate.lock_wait_p99_ms, control.lock_wait_p99_ms),
            ("p95 result latency", in_ms, candidate.result_latency_p95_ms, control.result_latency_p95_ms),
            (
                "number of retries per result",
                number,
                candidate.retries_per_result,
                control.retries_per_result,
            ),
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
fn conclude(control: &ArmSummary, candidate: &ArmSummary) -> Judgement {
    let value = |estimate: Option<Estimate>| estimate.map_or(0.0, |estimate| estimate.value);
    let retries = (value(candidate.retries_per_minute), value(control.retries_per_minute));
    let latency = (value(candidate.result_latency_p95_ms), value(control.result_latency_p95_ms));
    let figures = format!(
        "retries per minute {:.2} with the candidate and {:.2} without, p95 result latency {:.0} ms and {:.0} ms",
        retries.0, retries.1, latency.0, latency.1
    );
    match (retries.0 < retries.1, latency.0 < latency.1) {
        (true, true) => Judgement::Promote(format!("retries and result latency improved: {figures}")),
        (true, false) => Judgement::RollBack(format!("result latency did not improve: {figures}")),
        (false, true) => Judgement::RollBack(format!("retries did not improve: {figures}")),
        (false, false) => {
            Judgement::RollBack(format!("neither retries nor result latency improved: {figures}"))
        }
    }
}

/// Fully measured results and outstanding ones.
fn samples(figures: &Figures) -> u64 {
    figures.results.min(figures.result_latency.count()) + figures.outstanding()
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::contention::{Book, Guards, NewRollout, Scope, Share, Signed};
    use crate::retry::RetryPolicy;

    fn rollout(guards: Guards) -> Rollout {
        let new = NewRollout {
            id: "one".parse().unwrap(),
            candidate: RetryPolicy::Fixed { delay_ms: 5_000 },
            configured: Scope::LockBusy.tuning(),
            share: Share::of_percent(10.0).unwrap(),
            duration: Duration::from_hours(1),
            guards,
        };
        let signed = Signed { by: "ada".to_owned(), at: Timestamp::ZERO, reason: None };
        Book::default().start(new, signed).unwrap()
    }

    /// Results that all had the same number of retries and the same wait.
    fn figures(results: u64, retries_each: u64, millis: f64) -> Figures {
        let mut figures = Figures {
            results,
            retries: results * retries_each,
            busy_at_first: if retries_each > 0 { results } else { 0 },
            first_retry_successes: if retries_each == 1 { results } else { 0 },
            came_back: if retries_each > 0 { results } else { 0 },
            ..Figures::default()
        };
        for _ in 0..results {
            figures.lock_wait.observe(millis);
            figures.result_latency.observe(millis + 2.0);
        }
        figures
    }

    fn judge(control: Figures, candidate: Figures, after: Duration) -> Judgement {
        judge_under(Guards::default(), control, candidate, after)
    }

    fn judge_under(guards: Guards, control: Figures, candidate: Figures, after: Duration) -> Judgement {
        let measured = Measured { control, candidate };
        let rollout = rollout(guards);
        Trial { rollout: &rollout, measured: &measured, now: Timestamp::ZERO + after }.judge()
    }

    const SOON: Duration = Duration::from_secs(20);
    const AFTERWARDS: Duration = Duration::from_hours(1);

    #[test]
    fn a_harmful_candidate_is_rolled_back_at_once() {
        let judged = judge(figures(200, 1, 480.0), figures(50, 1, 4_900.0), SOON);
        let Judgement::RollBack(why) = judged else { panic!("{judged:?}") };
        assert!(why.contains("p95 lock wait") && why.contains("more than 2 times"), "{why}");
        assert!(why.contains("the control's 49") && why.contains("ms"), "{why}");
    }

    #[test]
    fn a_candidate_that_only_retries_more_is_rolled_back_too() {
        let judged = judge(figures(200, 1, 480.0), figures(60, 4, 480.0), SOON);
        assert!(
            matches!(&judged, Judgement::RollBack(why) if why.contains("retries per result")),
            "{judged:?}"
        );
    }

    #[test]
    fn nothing_is_concluded_from_too_few_samples() {
        for (control, candidate) in [(200, 49), (49, 200)] {
            let judged = judge(figures(control, 1, 480.0), figures(candidate, 9, 60_000.0), SOON);
            let Judgement::Continue(why) = judged else { panic!("{judged:?}") };
            assert!(why.starts_with("too few samples"), "{why}");
        }
        let judged = judge(figures(200, 1, 480.0), figures(10, 0, 1.0), AFTERWARDS);
        assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("too few samples")), "{judged:?}");
    }

    #[test]
    fn results_without_a_latency_are_no_samples() {
        let candidate = Figures { result_latency: figures(10, 0, 1.0).result_latency, ..figures(60, 0, 1.0) };
        let judged = judge(figures(200, 1, 480.0), candidate, AFTERWARDS);
        assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("too few samples")), "{judged:?}");
    }

    #[test]
    fn a_guard_is_violated_only_if_the_intervals_do_not_overlap() {
        let judged = judge(figures(200, 1, 480.0), figures(60, 1, 900.0), SOON);
        assert_eq!(judged, Judgement::Continue("no guard is violated".to_owned()));
        let strict = Guards { ratio: 1.0, ..Guards::default() };
        let judged = judge_under(strict, figures(200, 1, 480.0), figures(60, 1, 900.0), SOON);
        assert!(matches!(judged, Judgement::RollBack(_)));
    }

    /// Adds outstanding results with this deferral.
    fn with_outstanding(mut figures: Figures, outstanding: u64, delay_ms: f64) -> Figures {
        figures.retries += outstanding;
        figures.busy_at_first += outstanding;
        figures.retry_delay.observe_many(delay_ms, outstanding);
        figures
    }

    #[test]
    fn outstanding_results_count_against_a_candidate() {
        // Most results are applied at once, and a tenth is deferred for ten minutes without a measured wait yet.
        let candidate = with_outstanding(figures(300, 0, 4.0), 33, 600_000.0);
        let judged = judge(figures(300, 1, 480.0), candidate.clone(), SOON);
        assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("lock wait")), "{judged:?}");
        let judged = judge(figures(300, 1, 480.0), candidate, AFTERWARDS);
        assert!(matches!(judged, Judgement::RollBack(_)), "{judged:?}");
        // No result is applied at all.
        let judged = judge(figures(300, 1, 480.0), with_outstanding(Figures::default(), 60, 600_000.0), SOON);
        assert!(matches!(judged, Judgement::RollBack(_)), "{judged:?}");
        // Outstanding results with a normal deferral do no harm.
        let judged = judge(figures(300, 1, 480.0), with_outstanding(figures(100, 1, 480.0), 60, 500.0), SOON);
        assert!(matches!(judged, Judgement::Continue(_)), "{judged:?}");
    }

    #[test]
    fn an_absolute_limit_does_not_depend_on_the_control() {
        let guards = Guards { max_p99_lock_wait_ms: Some(1_000), ..Guards::default() };
        let judged = judge_under(guards, figures(5, 1, 4_900.0), figures(50, 1, 4_900.0), SOON);
        assert!(
            matches!(&judged, Judgement::RollBack(why) if why.contains("the limit is 1000 ms")),
            "{judged:?}"
        );
        let judged = judge_under(guards, figures(200, 1, 480.0), figures(50, 1, 480.0), SOON);
        assert!(matches!(judged, Judgement::Continue(_)));
    }

    #[test]
    fn at_the_end_only_an_improvement_of_both_metrics_is_promoted() {
        let control = || figures(500, 3, 900.0);
        let better = judge(control(), figures(60, 1, 300.0), AFTERWARDS);
        assert!(
            matches!(&better, Judgement::Promote(why) if why.contains("retries and result latency improved")),
            "{better:?}"
        );
        for (candidate, reason) in [
            (figures(60, 3, 300.0), "retries did not improve"),
            (figures(60, 1, 900.0), "result latency did not improve"),
            (figures(60, 3, 900.0), "neither retries nor result latency improved"),
        ] {
            let judged = judge(control(), candidate, AFTERWARDS);
            assert!(matches!(&judged, Judgement::RollBack(why) if why.contains(reason)), "{judged:?}");
        }
    }

    #[test]
    fn retries_per_minute_are_scaled_to_the_load_of_both_arms() {
        let rollout = rollout(Guards::default());
        let measured = Measured { control: figures(900, 2, 480.0), candidate: figures(100, 1, 480.0) };
        let trial =
            Trial { rollout: &rollout, measured: &measured, now: Timestamp::ZERO + Duration::from_mins(10) };
        let per_minute = |arm| trial.summary(arm).retries_per_minute.unwrap().value;
        assert!((per_minute(Arm::Control) - 200.0).abs() < 1e-6);
        assert!((per_minute(Arm::Candidate) - 100.0).abs() < 1e-6);
        let share = trial.summary(Arm::Candidate).first_retry_success.unwrap();
        assert!((share.value - 1.0).abs() < 1e-9);
        assert_eq!(
            trial.summary(Arm::Control).first_retry_success.unwrap().value.to_bits(),
            0.0_f64.to_bits()
        );
    }
}
