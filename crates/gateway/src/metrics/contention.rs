//! Numbers of contention, which the stages count by themselves: retries of results, waits for runs, keys not given back.

use std::fmt::Error;
use std::sync::{Mutex, PoisonError};

use interlock_control::contention::{CleanupContext, Tallied};
use interlock_model::contention::{Arm, Figures, Histogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// A counter that is documented under this name, without the `_total` of all others.
pub(super) const RETRIES: &str = "lock_busy_retry_count";

/// What the stages had counted when they were last asked.
#[derive(Debug, Default)]
pub(super) struct ContentionMetrics {
    counted: Mutex<Tallied>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ArmLabel {
    arm: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContextLabel {
    context: &'static str,
}

impl ContentionMetrics {
    pub(super) fn follow(&self, counted: Tallied) {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }
}

impl Collector for ContentionMetrics {
    /// Every arm and context is there from the start: a counter that exists shows its first increase.
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let retries = ConstCounter::new(Arm::ALL.map(|arm| counted.of(arm).retries).iter().sum::<u64>());
        retries.encode(encoder.encode_descriptor(
            RETRIES,
            "Results that found their run busy and were put off",
            None,
            MetricType::Counter,
        )?)?;
        for (name, help, of) in HISTOGRAMS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for arm in Arm::ALL {
                let times = of(counted.of(arm));
                let buckets: Vec<(f64, u64)> = times.buckets().collect();
                family.encode_family(&ArmLabel { arm: arm.name() })?.encode_histogram::<NoLabelSet>(
                    times.sum_ms(),
                    times.count(),
                    &buckets,
                    None,
                )?;
            }
        }
        let help = "Results that found their run busy at their first try and reached it at their second";
        let mut successes =
            encoder.encode_descriptor("lock_busy_first_retry_success", help, None, MetricType::Counter)?;
        for arm in Arm::ALL {
            let total = ConstCounter::new(counted.of(arm).first_retry_successes);
            total.encode(successes.encode_family(&ArmLabel { arm: arm.name() })?)?;
        }
        let help =
            "Tries to give back a reserved idempotency key that failed, by why it was to be given back";
        let mut cleanups =
            encoder.encode_descriptor("idempotency_cleanup_failures", help, None, MetricType::Counter)?;
        for context in CleanupContext::ALL {
            let total = ConstCounter::new(counted.cleanup_failures(context));
            total.encode(cleanups.encode_family(&ContextLabel { context: context.name() })?)?;
        }
        Ok(())
    }
}

type Times = fn(&Figures) -> &Histogram;

const HISTOGRAMS: [(&str, &str, Times); 3] = [
    (
        "lock_busy_retry_delay_ms",
        "How long results whose run was busy were put off for, each time",
        |figures| &figures.retry_delay,
    ),
    ("run_lock_wait_ms", "From when a result came until its run was held for it", |figures| {
        &figures.lock_wait
    }),
    ("job_result_latency_ms", "From when a result came until its run had taken it into account", |figures| {
        &figures.result_latency
    }),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use interlock_control::contention::Tally;

    use crate::metrics::Metrics;

    #[test]
    fn every_arm_and_context_is_there_before_anything_was_counted() {
        let text = Metrics::new(1).render();
        for line in [
            "# TYPE lock_busy_retry_count counter",
            "lock_busy_retry_count 0",
            "# TYPE lock_busy_retry_delay_ms histogram",
            "lock_busy_retry_delay_ms_count{arm=\"control\"} 0",
            "run_lock_wait_ms_count{arm=\"candidate\"} 0",
            "job_result_latency_ms_bucket{le=\"+Inf\",arm=\"control\"} 0",
            "# TYPE lock_busy_first_retry_success_total counter",
            "lock_busy_first_retry_success_total{arm=\"candidate\"} 0",
            "# TYPE idempotency_cleanup_failures_total counter",
            "idempotency_cleanup_failures_total{context=\"count_failed\"} 0",
            "idempotency_cleanup_failures_total{context=\"at_capacity\"} 0",
            "idempotency_cleanup_failures_total{context=\"create_failed\"} 0",
            "idempotency_cleanup_failures_total{context=\"cancelled\"} 0",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }

    #[test]
    fn what_the_stages_have_counted_is_shown_by_arm() {
        use interlock_control::contention::CleanupContext::Cancelled;
        use interlock_model::contention::Arm::{Candidate, Control};
        let tally = Tally::default();
        tally.busy(Control, (1, Duration::ZERO), Duration::from_millis(500));
        tally.busy(Candidate, (1, Duration::ZERO), Duration::from_millis(400));
        tally.busy(Candidate, (2, Duration::ZERO), Duration::from_millis(600));
        tally.reached(Control, 2, Duration::from_millis(501));
        tally.settled(Control, Duration::from_millis(510));
        tally.cleanup_failed(Cancelled);
        let metrics = Metrics::new(1);
        metrics.follow_contention(tally.counted());
        let text = metrics.render();
        for line in [
            "lock_busy_retry_count 3",
            "lock_busy_retry_delay_ms_sum{arm=\"candidate\"} 1000.0",
            "lock_busy_retry_delay_ms_bucket{le=\"350.0\",arm=\"candidate\"} 0",
            "lock_busy_retry_delay_ms_bucket{le=\"500.0\",arm=\"candidate\"} 1",
            "lock_busy_retry_delay_ms_bucket{le=\"650.0\",arm=\"candidate\"} 2",
            "lock_busy_retry_delay_ms_bucket{le=\"+Inf\",arm=\"candidate\"} 2",
            "lock_busy_retry_delay_ms_count{arm=\"control\"} 1",
            "run_lock_wait_ms_sum{arm=\"control\"} 501.0",
            "job_result_latency_ms_sum{arm=\"control\"} 510.0",
            "lock_busy_first_retry_success_total{arm=\"control\"} 1",
            "lock_busy_first_retry_success_total{arm=\"candidate\"} 0",
            "idempotency_cleanup_failures_total{context=\"cancelled\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }
}
