//! Numbers for Prometheus.

mod contention;
mod reach;
mod stages;
mod store;
mod tenants;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_backend::dead_letters::DeadLetterCount;
use interlock_backend::instrumented::StoreCalls;
use interlock_control::contention::Tallied;
use interlock_control::counts::Counted;
use interlock_model::TenantId;
use interlock_model::admission::Usage;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use contention::ContentionMetrics;
use reach::Reach;
use stages::StageMetrics;
use store::StoreMetrics;
pub(crate) use tenants::{AdmissionOutcome, Endpoint};
use tenants::{TenantLabels, TenantMetrics};

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    tenants: TenantLabels,
    active_runs: Family<TenantLabel, Gauge>,
    active_runs_max: Family<TenantLabel, Gauge>,
    fence_rejections: Family<WriteLabel, Counter>,
    fail_opens: Counter,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram, Seconds>,
    contention: Arc<ContentionMetrics>,
    reach: Reach,
    stages: Arc<StageMetrics>,
    store: Arc<StoreMetrics>,
}

/// A write that carries a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FencedWrite {
    Heartbeat,
    Progress,
    Complete,
    Fail,
    /// From a worker on the bus.
    BusResult,
    /// Asked for again with a token.
    LockAcquire,
    LockRenew,
    LockRelease,
    LockForceRelease,
}

impl FencedWrite {
    const ALL: [Self; 9] = [
        Self::Heartbeat,
        Self::Progress,
        Self::Complete,
        Self::Fail,
        Self::BusResult,
        Self::LockAcquire,
        Self::LockRenew,
        Self::LockRelease,
        Self::LockForceRelease,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Heartbeat => "heartbeat",
            Self::Progress => "progress",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::BusResult => "bus_result",
            Self::LockAcquire => "lock_acquire",
            Self::LockRenew => "lock_renew",
            Self::LockRelease => "lock_release",
            Self::LockForceRelease => "lock_force_release",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TenantLabel {
    tenant: String,
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
        let active_runs = Family::default();
        registry.register("active_runs", "Runs that hold a slot", active_runs.clone());
        let active_runs_max = Family::default();
        registry.register("active_runs_max", "Runs that may hold a slot at once", active_runs_max.clone());
        let fence_rejections = Family::<WriteLabel, Counter>::default();
        registry.register("fence_rejections", "Writes refused for a stale fence", fence_rejections.clone());
        for write in FencedWrite::ALL {
            // A counter that exists from the start shows its first increase.
            drop(fence_rejections.get_or_create(&WriteLabel { write: write.name() }));
        }
        let fail_opens = Counter::default();
        registry.register(
            "cordum_scheduler_input_fail_open",
            "Jobs that went on because the policy service was away",
            fail_opens.clone(),
        );
        let requests = Family::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        let durations = Family::new_with_constructor(Seconds);
        registry.register(
            "http_request_duration_seconds",
            "From a request's header to its answer's",
            durations.clone(),
        );
        let contention = Arc::new(ContentionMetrics::default());
        registry.register_collector(Box::new(contention.clone()));
        let stages = Arc::new(StageMetrics::new(tenant_labels_max));
        registry.register_collector(Box::new(stages.clone()));
        let store = Arc::new(StoreMetrics::default());
        registry.register_collector(Box::new(store.clone()));
        let reach = Reach::register(&mut registry);
        Self {
            registry,
            tenants,
            active_runs,
            active_runs_max,
            fence_rejections,
            fail_opens,
            requests,
            durations,
            contention,
            reach,
            stages,
            store,
        }
    }

    pub(crate) fn route(&self, method: &'static str, route: &'static str) -> RouteMetrics {
        let duration = self.durations.get_or_create_owned(&RouteLabel { route });
        RouteMetrics { method, route, requests: self.requests.clone(), duration }
    }

    pub(crate) fn tenant(&self, tenant: &TenantId) -> Arc<TenantMetrics> {
        self.tenants.of(tenant)
    }

    pub(crate) fn fence_rejected(&self, write: FencedWrite) {
        self.fence_rejections.get_or_create(&WriteLabel { write: write.name() }).inc();
    }

    /// What the edge on the bus has refused since the process began. It counts by itself; this follows.
    pub(crate) fn follow_refused_results(&self, refused: u64) {
        let counter =
            self.fence_rejections.get_or_create_owned(&WriteLabel { write: FencedWrite::BusResult.name() });
        counter.inc_by(refused.saturating_sub(counter.get()));
    }

    /// Jobs that the stages have let go because the policy service was away, since the process began.
    pub(crate) fn follow_fail_opens(&self, total: u64) {
        self.fail_opens.inc_by(total.saturating_sub(self.fail_opens.get()));
    }

    /// What the stages have counted of contention since the process began.
    pub(crate) fn follow_contention(&self, counted: Tallied) {
        self.contention.follow(counted);
    }

    /// What the stages have counted of jobs, slots and their own ticks since the process began.
    pub(crate) fn follow_stages(&self, counted: Counted) {
        self.stages.follow(counted);
    }

    /// The calls of the store since the process began.
    pub(crate) fn follow_store(&self, calls: &StoreCalls) {
        self.store.follow(calls.counted());
    }

    pub(crate) fn follow_letters_max(&self, dead_letters_max: u32) {
        self.stages.follow_letters_max(dead_letters_max);
    }

    /// The dead letters of all tenants, as the store counts them.
    pub(crate) fn follow_letters(&self, counts: &[(TenantId, DeadLetterCount)]) {
        self.stages.follow_letters(counts);
    }

    /// Whether the store answered this scrape, and whether the bus is there.
    pub(crate) fn set_reach(&self, store: bool, bus: bool) {
        self.reach.set(store, bus);
    }

    /// Tenants that have become busy get a name of their own, instead of those that have not been for long.
    pub(crate) fn name_the_busiest(&self, now: Instant) {
        self.tenants.name_the_busiest(now);
    }

    /// Replaces the live runs and their caps: the busiest tenants by name, the others together.
    pub(crate) fn set_active_runs(&self, mut usages: Vec<(TenantId, Usage)>) {
        usages.sort_by(|one, other| {
            other.1.runs_active.cmp(&one.1.runs_active).then_with(|| one.0.cmp(&other.0))
        });
        let rest = usages.split_off(usages.len().min(self.tenants.names_max()));
        self.active_runs.clear();
        self.active_runs_max.clear();
        // There even if nobody is left for it.
        self.add_active(tenants::OTHER.to_owned(), Usage { runs_active: 0, runs_max: 0 });
        for (tenant, usage) in usages {
            self.add_active(tenant.to_string(), usage);
        }
        for (_, usage) in rest {
            self.add_active(tenants::OTHER.to_owned(), usage);
        }
    }

    /// Added, not set: a tenant may be named as the others are together.
    fn add_active(&self, tenant: String, usage: Usage) {
        let label = TenantLabel { tenant };
        self.active_runs.get_or_create(&label).inc_by(usage.runs_active.into());
        self.active_runs_max.get_or_create(&label).inc_by(usage.runs_max.into());
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
