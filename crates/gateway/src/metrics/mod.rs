//! Metrics for Prometheus: counted here, or counted elsewhere and read by a scrape.

mod budgets;
mod limits;
mod scrape;
mod store;
mod tenants;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_backend::StoreError;
use interlock_model::{TenantId, named_enum};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use budgets::BudgetFigures;
pub(crate) use limits::LimitFigures;
use scrape::Scraped;
pub(crate) use scrape::{Scrape, TenantFigures};
pub(crate) use tenants::{AdmissionEndpoint, AdmissionOutcome};
use tenants::{TenantLabels, TenantMetrics};

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    tenants: TenantLabels,
    fence_rejections: Family<WriteLabel, Counter>,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram, Seconds>,
    scraped: Arc<Scraped>,
}

named_enum! {
    /// A write that carries a fence.
    pub enum FencedWrite {
        Heartbeat = "heartbeat",
        Progress = "progress",
        Complete = "complete",
        Fail = "fail",
        Release = "release",
        /// From a NATS worker.
        BusResult = "bus_result",
        /// The commit of a turn, by an engine that no longer has the run.
        RunCommit = "run_commit",
        /// The snapshot of workers, by a replica that no longer writes it.
        Snapshot = "snapshot",
        /// Requested again with a token.
        LockAcquire = "lock_acquire",
        LockRenew = "lock_renew",
        LockRelease = "lock_release",
        LockForceRelease = "lock_force_release",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabel {
    write: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: &'static str,
}

/// From a quarter of a millisecond to a minute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new([
            0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
            30.0, 60.0,
        ])
    }
}

/// What one route counts, looked up once.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    method: &'static str,
    route: &'static str,
    requests: Family<RequestLabels, Counter>,
    duration: Histogram,
}

impl RouteMetrics {
    pub(crate) fn answered(&self, status: u16, took: Duration) {
        let labels = RequestLabels { method: self.method, route: self.route, status };
        self.requests.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
    }
}

impl Metrics {
    pub(crate) fn new(tenant_labels_max: usize) -> Self {
        let mut registry = Registry::default();
        let tenants = TenantLabels::register(&mut registry, tenant_labels_max);
        let fence_rejections = Family::<WriteLabel, Counter>::default();
        registry.register("fence_rejections", "Writes refused for a stale fence", fence_rejections.clone());
        for write in FencedWrite::ALL {
            // A counter that exists from the start shows its first increase.
            drop(fence_rejections.get_or_create(&WriteLabel { write: write.name() }));
        }
        let requests = Family::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        let durations = Family::new_with_constructor(Seconds);
        registry.register(
            "http_request_duration_seconds",
            "From a request's header to its answer's",
            durations.clone(),
        );
        let scraped = Arc::new(Scraped::new(tenant_labels_max));
        registry.register_collector(Box::new(scraped.clone()));
        Self { registry, tenants, fence_rejections, requests, durations, scraped }
    }

    pub(crate) fn route(&self, method: &'static str, route: &'static str) -> Arc<RouteMetrics> {
        let duration = self.durations.get_or_create_owned(&RouteLabel { route });
        Arc::new(RouteMetrics { method, route, requests: self.requests.clone(), duration })
    }

    pub(crate) fn tenant(&self, tenant: &TenantId) -> Arc<TenantMetrics> {
        self.tenants.of(tenant)
    }

    /// Counts an answer of the store that rejects a stale fence.
    pub(crate) fn fenced<T>(
        &self,
        write: FencedWrite,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if matches!(answer, Err(StoreError::Fenced { .. })) {
            self.fence_rejections.get_or_create(&WriteLabel { write: write.name() }).inc();
        }
        answer
    }

    /// Takes over what a scrape has read. Without figures of tenants, the last known ones stay.
    pub(crate) fn scraped(&self, scrape: Scrape, tenants: Option<Vec<TenantFigures>>) {
        let counted = &scrape.counted;
        for (write, total) in [
            (FencedWrite::BusResult, counted.results_refused),
            (FencedWrite::RunCommit, counted.commits_refused),
            (FencedWrite::Snapshot, counted.snapshots_refused),
        ] {
            let refused = self.fence_rejections.get_or_create_owned(&WriteLabel { write: write.name() });
            refused.inc_by(total.saturating_sub(refused.get()));
        }
        self.scraped.set(scrape, tenants);
    }

    /// Gives their own label to tenants that have become busy, in place of those that no longer are.
    pub(crate) fn name_the_busiest(&self, now: Instant) {
        self.tenants.name_the_busiest(now);
    }

    /// Everything, in Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        let mut written = String::new();
        match prometheus_client::encoding::text::encode(&mut written, &self.registry) {
            Ok(()) => text::to_prometheus(&written),
            Err(std::fmt::Error) => unreachable!("writing into a string does not fail"),
        }
    }
}
