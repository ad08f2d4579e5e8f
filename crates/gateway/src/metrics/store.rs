//! Calls of the store, by verb. A verb has its series from its first call on.

use std::fmt::Error;

use interlock_backend::instrumented::VerbCalls;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    outcome: &'static str,
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder,
    calls: &[(&'static str, VerbCalls)],
) -> Result<(), Error> {
    let help = "Duration of calls of the store, by verb";
    let mut seconds =
        encoder.encode_descriptor("interlock_store_call_seconds", help, None, MetricType::Histogram)?;
    for (verb, calls) in calls {
        let buckets: Vec<(f64, u64)> = calls.buckets().collect();
        seconds.encode_family(&VerbLabel { verb })?.encode_histogram::<NoLabelSet>(
            calls.seconds,
            calls.count(),
            &buckets,
            None,
        )?;
    }
    let help = "Calls of the store, by verb and outcome";
    let mut total = encoder.encode_descriptor("interlock_store_calls", help, None, MetricType::Counter)?;
    for (verb, calls) in calls {
        for (outcome, count) in calls.outcomes() {
            let labels = CallLabels { verb, outcome: outcome.name() };
            ConstCounter::new(count).encode(total.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
