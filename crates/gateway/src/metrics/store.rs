//! Calls of the store, by verb. A verb has its series from its first call on.

use std::fmt::Error;
use std::sync::{Mutex, PoisonError};

use interlock_backend::instrumented::VerbCalls;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// The calls as of the last scrape.
#[derive(Debug, Default)]
pub(super) struct StoreMetrics {
    calls: Mutex<Vec<(&'static str, VerbCalls)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    outcome: &'static str,
}

impl StoreMetrics {
    pub(super) fn follow(&self, calls: Vec<(&'static str, VerbCalls)>) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = calls;
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "Duration of calls of the store, by verb";
        let mut seconds =
            encoder.encode_descriptor("interlock_store_call_seconds", help, None, MetricType::Histogram)?;
        for (verb, calls) in calls.iter() {
            let buckets: Vec<(f64, u64)> = calls.buckets().collect();
            seconds.encode_family(&VerbLabel { verb })?.encode_histogram::<NoLabelSet>(
                calls.seconds,
                calls.count(),
                &buckets,
                None,
            )?;
        }
        let help = "Calls of the store, by verb and outcome";
        let mut total =
            encoder.encode_descriptor("interlock_store_calls", help, None, MetricType::Counter)?;
        for (verb, calls) in calls.iter() {
            for (outcome, count) in calls.outcomes() {
                let labels = CallLabels { verb, outcome: outcome.name() };
                ConstCounter::new(count).encode(total.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
