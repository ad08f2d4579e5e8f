//! How full limits are, and what becomes of runs that wait for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Error;

use interlock_control::counts::Counted;
use interlock_model::LimitName;
use interlock_model::run::QueueExit;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::TenantFigures;
use super::tenants::OTHER;

/// What one scrape reads about a limit, all of its groups together.
#[derive(Debug, Clone)]
pub(crate) struct LimitFigures {
    pub limit: LimitName,
    pub live: u64,
    /// Of each group; none for a rate.
    pub max: Option<u32>,
    pub queued: u64,
}

type Pair = (String, String);

/// The busiest limits by their names and those of their tenants, the others together.
fn by_limit(names_max: usize, tenants: &[TenantFigures]) -> BTreeMap<Pair, [u64; 3]> {
    let mut all: Vec<_> = tenants.iter().flat_map(|of| of.limits.iter().map(|it| (&of.tenant, it))).collect();
    all.sort_by_key(|(tenant, it)| (Reverse(it.live + it.queued), *tenant, &it.limit));
    let other = || (OTHER.to_owned(), OTHER.to_owned());
    let mut named = BTreeMap::from([(other(), [0; 3])]);
    for (place, (tenant, it)) in all.into_iter().enumerate() {
        let pair = if place < names_max { (tenant.to_string(), it.limit.to_string()) } else { other() };
        // Added, because a tenant and its limit may have the names of the others.
        let sums = named.entry(pair).or_insert([0; 3]);
        let figures = [it.live, it.max.unwrap_or_default().into(), it.queued];
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
    }
    named
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    (counted, tenants): (&Counted, &[TenantFigures]),
    names_max: usize,
) -> Result<(), Error> {
    let limits = by_limit(names_max, tenants);
    let families = [
        ("interlock_limit_usage", "Live runs that count in a limit"),
        ("interlock_limit_max", "Live runs that each group of a limit may have; 0 for a rate"),
        ("interlock_limit_queued", "Runs that wait for a limit"),
    ];
    for (place, (name, help)) in families.into_iter().enumerate() {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((tenant, limit), figures) in &limits {
            let labels = [("tenant", tenant.as_str()), ("limit", limit.as_str())];
            family.encode_family(&labels)?.encode_gauge(&figures[place])?;
        }
    }
    let help = "Runs that left the queue of a limit, by how, in this process";
    let mut family = encoder.encode_descriptor("interlock_queue_ended", help, None, MetricType::Counter)?;
    for exit in QueueExit::ALL {
        let total = counted.queue_exits[exit as usize];
        let how = [("how", exit.name())];
        let mut series = family.encode_family(&how)?;
        series.encode_counter::<NoLabelSet, _, u64>(&total, None)?;
    }
    let help = "Seconds that runs waited for their slots, of those that got them";
    let mut waits =
        encoder.encode_descriptor("interlock_queue_wait_seconds", help, None, MetricType::Histogram)?;
    let times = &counted.queue_wait;
    let buckets: Vec<_> = times.buckets().map(|(bound, count)| (bound / 1_000.0, count)).collect();
    waits.encode_histogram::<NoLabelSet>(times.sum_ms() / 1_000.0, times.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use interlock_backend::dead_letters::DeadLetterCount;
    use interlock_model::admission::Usage;

    use super::*;

    fn tenant(name: &str, limits: &[(&str, u64, u64)]) -> TenantFigures {
        let limits = limits.iter().map(|(limit, live, queued)| LimitFigures {
            limit: limit.parse().unwrap(),
            live: *live,
            max: Some(2),
            queued: *queued,
        });
        TenantFigures {
            tenant: name.parse().unwrap(),
            usage: Usage { runs_active: 0, runs_max: 0 },
            dead_letters: DeadLetterCount { kept: 0, dropped: 0 },
            limits: limits.collect(),
            budgets: Vec::new(),
        }
    }

    #[test]
    fn the_busiest_limits_have_names_and_the_others_are_added_up() {
        let tenants =
            [tenant("acme", &[("a", 1, 0), ("b", 2, 90)]), tenant("globex", &[("a", 1, 9), ("c", 3, 1)])];
        let named = by_limit(2, &tenants);
        let shown: Vec<_> =
            named.iter().map(|((of, limit), it)| (of.as_str(), limit.as_str(), *it)).collect();
        assert_eq!(
            shown,
            [("acme", "b", [2, 2, 90]), ("globex", "a", [1, 2, 9]), ("other", "other", [4, 4, 1])]
        );
    }
}
