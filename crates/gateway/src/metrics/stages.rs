//! Numbers of the scheduler and the reconcilers, which the stages count by themselves, and of dead letters.

use std::fmt::Error;
use std::sync::{Mutex, PoisonError};

use interlock_backend::dead_letters::DeadLetterCount;
use interlock_control::counts::Counted;
use interlock_model::TenantId;
use interlock_model::job::StaleState;
use interlock_model::lock::StageLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::TenantLabel;
use super::tenants::named;

/// What the stages had counted when they were last asked.
#[derive(Debug)]
pub(super) struct StageMetrics {
    names_max: usize,
    counted: Mutex<Counted>,
    letters: Mutex<Letters>,
}

#[derive(Debug, Default)]
struct Letters {
    kept: Vec<(TenantId, u32)>,
    dropped: u64,
    max: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoopLabel {
    r#loop: &'static str,
}

impl StageMetrics {
    pub(super) fn new(names_max: usize) -> Self {
        Self { names_max, counted: Mutex::default(), letters: Mutex::default() }
    }

    pub(super) fn follow(&self, counted: Counted) {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }

    pub(super) fn follow_letters_max(&self, max: u32) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).max = max;
    }

    pub(super) fn follow_letters(&self, counts: &[(TenantId, DeadLetterCount)]) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.kept = counts.iter().map(|(tenant, count)| (tenant.clone(), count.kept)).collect();
        letters.dropped = counts.iter().map(|(_, count)| count.dropped).sum();
    }

    fn encode_counted(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help = "Ticks of the loops that one replica at a time runs, made by this one";
        let mut ticks = encoder.encode_descriptor("loop_ticks", help, None, MetricType::Counter)?;
        for (stage, count) in StageLock::ALL.into_iter().zip(counted.ticks) {
            ConstCounter::new(count).encode(ticks.encode_family(&LoopLabel { r#loop: stage.key() })?)?;
        }
        let help = "Jobs that waited though somebody could have had them, until a look found them";
        ConstCounter::new(counted.orphans_replayed).encode(encoder.encode_descriptor(
            "orphan_replayed",
            help,
            None,
            MetricType::Counter,
        )?)?;
        let help = "Jobs without a live lease at the last slow look, before they were ended";
        let mut stale = encoder.encode_descriptor("stale_jobs", help, None, MetricType::Gauge)?;
        for (state, jobs) in StaleState::ALL.into_iter().zip(counted.stale_jobs) {
            gauge(jobs).encode(stale.encode_family(&StateLabel { state: state.name() })?)?;
        }
        let help = "Slots and live runs that did not agree at the last look";
        let drift = encoder.encode_descriptor("slot_drift", help, None, MetricType::Gauge)?;
        gauge(counted.slot_drift).encode(drift)?;
        let help = "Seconds from when a job was queued until its lease began";
        let mut waits = encoder.encode_descriptor("job_lock_wait", help, None, MetricType::Histogram)?;
        let buckets: Vec<(f64, u64)> =
            counted.job_lock_wait.buckets().map(|(bound, count)| (bound / 1_000.0, count)).collect();
        let (sum, count) = (counted.job_lock_wait.sum_ms() / 1_000.0, counted.job_lock_wait.count());
        waits.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn encode_letters(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "Dead letters that are kept";
        let mut kept = encoder.encode_descriptor("dead_letters", help, None, MetricType::Gauge)?;
        for (tenant, count) in named(letters.kept.clone(), self.names_max) {
            gauge(count).encode(kept.encode_family(&TenantLabel { tenant })?)?;
        }
        let help = "Dead letters that one tenant may have";
        let max = encoder.encode_descriptor("dead_letters_max", help, None, MetricType::Gauge)?;
        gauge(u64::from(letters.max)).encode(max)?;
        let help = "Dead letters that made room for others, as the store has counted them";
        ConstCounter::new(letters.dropped).encode(encoder.encode_descriptor(
            "dead_letters_dropped",
            help,
            None,
            MetricType::Counter,
        )?)
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Collector for StageMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        self.encode_counted(&mut encoder)?;
        self.encode_letters(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use interlock_backend::dead_letters::DeadLetterCount;
    use interlock_model::TenantId;

    use crate::metrics::Metrics;

    fn has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|told| told == *line), "{line} in {text}");
        }
    }

    #[test]
    fn every_series_is_there_before_anything_was_counted() {
        has(
            &Metrics::new(1).render(),
            &[
                "# TYPE job_lock_wait histogram",
                "job_lock_wait_count 0",
                "job_lock_wait_bucket{le=\"0.001\"} 0",
                "job_lock_wait_bucket{le=\"+Inf\"} 0",
                "# TYPE stale_jobs gauge",
                "stale_jobs{state=\"dispatched\"} 0",
                "stale_jobs{state=\"running\"} 0",
                "# TYPE orphan_replayed_total counter",
                "orphan_replayed_total 0",
                "slot_drift 0",
                "loop_ticks_total{loop=\"reconciler:default\"} 0",
                "loop_ticks_total{loop=\"replayer:pending\"} 0",
                "loop_ticks_total{loop=\"reconciler:retention\"} 0",
                "dead_letters{tenant=\"other\"} 0",
                "dead_letters_max 0",
                "dead_letters_dropped_total 0",
            ],
        );
    }

    #[test]
    fn dead_letters_are_shown_for_the_tenants_with_the_most() {
        let metrics = Metrics::new(2);
        let count = |tenant: &str, kept, dropped| {
            (tenant.parse::<TenantId>().unwrap(), DeadLetterCount { kept, dropped })
        };
        metrics.follow_letters(&[count("a", 1, 0), count("b", 5, 2), count("c", 3, 1), count("d", 2, 0)]);
        metrics.follow_letters_max(10);
        has(
            &metrics.render(),
            &[
                "dead_letters{tenant=\"b\"} 5",
                "dead_letters{tenant=\"c\"} 3",
                "dead_letters{tenant=\"other\"} 3",
                "dead_letters_max 10",
                "dead_letters_dropped_total 3",
            ],
        );
    }
}
