//! Metrics by tenant, for a bounded number of tenants.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use interlock_model::{TenantId, named_enum};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Seconds, TenantFigures};

/// The label of every tenant that has none of its own.
pub(super) const OTHER: &str = "other";

/// Figures by tenant: those with the largest first figure by name, the others together.
pub(super) fn by_tenant<const N: usize>(
    names_max: usize,
    tenants: &[TenantFigures],
    figures: impl Fn(&TenantFigures) -> [u32; N],
) -> BTreeMap<String, [u64; N]> {
    let mut largest: Vec<_> = tenants.iter().map(|of| (figures(of), &of.tenant)).collect();
    largest.sort_by_key(|(figures, tenant)| (Reverse(figures[0]), *tenant));
    let mut named = BTreeMap::from([(OTHER.to_owned(), [0; N])]);
    for (place, (figures, tenant)) in largest.into_iter().enumerate() {
        let name = if place < names_max { tenant.as_str() } else { OTHER };
        // Added, because a tenant may have the name of the others.
        let sums = named.entry(name.to_owned()).or_insert([0; N]);
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += u64::from(figure));
    }
    named
}

named_enum! {
    /// The outcome of a start.
    pub enum AdmissionOutcome {
        Admitted = "admitted",
        Replayed = "replayed",
        KeyReused = "key_reused",
        Queued = "queued",
        Joined = "joined",
        AtCapacity = "at_capacity",
        LimitReached = "limit_reached",
        QueueFull = "queue_full",
        /// Not found, not valid, not allowed.
        Refused = "refused",
        Unavailable = "unavailable",
        Unknown = "unknown",
    }
}

named_enum! {
    pub enum AdmissionEndpoint {
        Start = "start",
        Rerun = "rerun",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AdmissionLabels {
    tenant: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    tenant: String,
    endpoint: &'static str,
}

/// The metrics of one tenant, looked up once: the start of a run must not pay for labels.
#[derive(Debug)]
pub(crate) struct TenantMetrics {
    admissions: [Counter; AdmissionOutcome::ALL.len()],
    waits: [Histogram; AdmissionEndpoint::ALL.len()],
}

impl TenantMetrics {
    pub(crate) fn decided(&self, endpoint: AdmissionEndpoint, outcome: AdmissionOutcome, took: Duration) {
        self.admissions[outcome as usize].inc();
        self.waits[endpoint as usize].observe(took.as_secs_f64());
    }
}

/// After this time, a start counts half.
const HALF_LIFE: Duration = Duration::from_mins(10);

/// Tenants without a label that are counted, so that the busiest of them can get one.
const UNNAMED_MAX: usize = 10_000;

/// The busiest tenants by name, the others together.
#[derive(Debug)]
pub(super) struct TenantLabels {
    admissions: Family<AdmissionLabels, Counter>,
    waits: Family<WaitLabels, Histogram, Seconds>,
    tenants: RwLock<Tenants>,
    other: Arc<TenantMetrics>,
    names_max: usize,
}

#[derive(Debug)]
struct Tenants {
    named: HashMap<TenantId, Busy>,
    unnamed: HashMap<TenantId, Busy>,
    halved_at: Instant,
}

/// A tenant, and its recent starts.
#[derive(Debug)]
struct Busy {
    metrics: Arc<TenantMetrics>,
    asked: AtomicU64,
}

impl Busy {
    fn new(metrics: Arc<TenantMetrics>) -> Self {
        Self { metrics, asked: AtomicU64::new(1) }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl TenantLabels {
    pub(super) fn register(registry: &mut Registry, names_max: usize) -> Self {
        let admissions = Family::default();
        registry.register("admissions", "Starts and reruns, by what became of them", admissions.clone());
        let waits = Family::new_with_constructor(Seconds);
        registry.register(
            "admission_wait_seconds",
            "How long a start or rerun took to decide",
            waits.clone(),
        );
        let other = Arc::new(resolve(&admissions, &waits, OTHER));
        let (named, unnamed) = (HashMap::new(), HashMap::new());
        let tenants = RwLock::new(Tenants { named, unnamed, halved_at: Instant::now() });
        Self { admissions, waits, tenants, other, names_max }
    }

    pub(super) fn of(&self, tenant: &TenantId) -> Arc<TenantMetrics> {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tenants.named.get(tenant).or_else(|| tenants.unnamed.get(tenant)) {
            found.asked.fetch_add(1, Ordering::Relaxed);
            return found.metrics.clone();
        }
        drop(tenants);
        self.introduce(tenant)
    }

    /// The first tenants get a label at once, later ones when they are among the busiest.
    fn introduce(&self, tenant: &TenantId) -> Arc<TenantMetrics> {
        if tenant.as_str() == OTHER {
            return self.other.clone();
        }
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let Tenants { named, unnamed, .. } = &mut *tenants;
        if named.len() < self.names_max {
            let name = || Busy::new(Arc::new(resolve(&self.admissions, &self.waits, tenant.as_str())));
            return named.entry(tenant.clone()).or_insert_with(name).metrics.clone();
        }
        if unnamed.len() < UNNAMED_MAX && !named.contains_key(tenant) {
            unnamed.entry(tenant.clone()).or_insert_with(|| Busy::new(self.other.clone()));
        }
        self.other.clone()
    }

    /// Gives a label to each tenant without one that has become twice as busy as the quietest tenant with one, which loses
    /// it. Twice, so that two similar tenants do not alternate: a series with gaps is of little use.
    pub(super) fn name_the_busiest(&self, now: Instant) {
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let Tenants { named, unnamed, halved_at } = &mut *tenants;
        let mut busiest = by_asked(unnamed);
        busiest.reverse();
        for ((asked, busier), (least, quieter)) in busiest.into_iter().zip(by_asked(named)) {
            if asked <= least.saturating_mul(2) {
                break;
            }
            if let (Some(rising), Some(falling)) = (unnamed.remove(&busier), named.remove(&quieter)) {
                self.retire(quieter.as_str());
                let metrics = Arc::new(resolve(&self.admissions, &self.waits, busier.as_str()));
                named.insert(busier, Busy { metrics, ..rising });
                unnamed.insert(quieter, Busy { metrics: self.other.clone(), ..falling });
            }
        }
        if now.saturating_duration_since(*halved_at) >= HALF_LIFE {
            *halved_at = now;
            for busy in named.values().chain(unnamed.values()) {
                busy.asked.store(busy.asked() / 2, Ordering::Relaxed);
            }
            unnamed.retain(|_, busy| busy.asked() > 0);
        }
    }

    /// Ends the series of a tenant. Its counts are not added to the others, where they would look like a burst.
    fn retire(&self, tenant: &str) {
        for outcome in AdmissionOutcome::ALL {
            self.admissions.remove(&AdmissionLabels { tenant: tenant.to_owned(), outcome: outcome.name() });
        }
        for endpoint in AdmissionEndpoint::ALL {
            self.waits.remove(&WaitLabels { tenant: tenant.to_owned(), endpoint: endpoint.name() });
        }
    }
}

/// The quietest first.
fn by_asked(tenants: &HashMap<TenantId, Busy>) -> Vec<(u64, TenantId)> {
    let mut sorted: Vec<_> = tenants.iter().map(|(tenant, busy)| (busy.asked(), tenant.clone())).collect();
    sorted.sort_unstable();
    sorted
}

fn resolve(
    admissions: &Family<AdmissionLabels, Counter>,
    waits: &Family<WaitLabels, Histogram, Seconds>,
    tenant: &str,
) -> TenantMetrics {
    TenantMetrics {
        admissions: AdmissionOutcome::ALL.map(|outcome| {
            let labels = AdmissionLabels { tenant: tenant.to_owned(), outcome: outcome.name() };
            admissions.get_or_create_owned(&labels)
        }),
        waits: AdmissionEndpoint::ALL.map(|endpoint| {
            let labels = WaitLabels { tenant: tenant.to_owned(), endpoint: endpoint.name() };
            waits.get_or_create_owned(&labels)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_and_endpoints_are_listed_in_the_order_of_their_discriminants() {
        for (place, outcome) in AdmissionOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
        for (place, endpoint) in AdmissionEndpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, place);
        }
    }

    /// Starts of a tenant.
    fn starts(labels: &TenantLabels, tenant: &str, count: usize) {
        for _ in 0..count {
            let metrics = labels.of(&tenant.parse().unwrap());
            metrics.decided(AdmissionEndpoint::Start, AdmissionOutcome::Admitted, Duration::from_millis(1));
        }
    }

    /// The admitted starts of each tenant that the metrics show, by name.
    fn shown(registry: &Registry) -> Vec<(String, u64)> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let lines = text.lines().filter(|line| line.contains("outcome=\"admitted\""));
        let mut shown: Vec<_> = lines
            .map(|line| {
                let tenant = line.split('"').nth(1).unwrap().to_owned();
                let count = line.rsplit(' ').next().unwrap().parse().unwrap();
                assert!(text.contains(&format!("admission_wait_seconds_count{{tenant=\"{tenant}\"")));
                (tenant, count)
            })
            .collect();
        shown.sort();
        shown
    }

    fn of_two() -> (Registry, TenantLabels) {
        let mut registry = Registry::default();
        let labels = TenantLabels::register(&mut registry, 2);
        (registry, labels)
    }

    fn pairs(shown: &[(&str, u64)]) -> Vec<(String, u64)> {
        shown.iter().map(|(tenant, count)| ((*tenant).to_owned(), *count)).collect()
    }

    #[test]
    fn tenants_beyond_the_bound_share_one_label() {
        let (registry, labels) = of_two();
        for tenant in ["a", "b", "c", "d", "a"] {
            starts(&labels, tenant, 1);
        }
        assert_eq!(shown(&registry), pairs(&[("a", 2), ("b", 1), ("other", 2)]));
    }

    #[test]
    fn a_tenant_twice_as_busy_as_the_quietest_takes_its_label() {
        let (registry, labels) = of_two();
        let now = Instant::now();
        starts(&labels, "a", 9);
        starts(&labels, "b", 5);
        starts(&labels, "c", 10);
        labels.name_the_busiest(now);
        assert_eq!(shown(&registry), pairs(&[("a", 9), ("b", 5), ("other", 10)]), "not twice as busy");
        starts(&labels, "c", 1);
        labels.name_the_busiest(now);
        assert_eq!(shown(&registry), pairs(&[("a", 9), ("c", 0), ("other", 11)]));
        starts(&labels, "c", 3);
        starts(&labels, "b", 1);
        labels.name_the_busiest(now);
        assert_eq!(shown(&registry), pairs(&[("a", 9), ("c", 3), ("other", 12)]));
    }

    #[test]
    fn a_tenant_that_was_busy_long_ago_loses_its_label() {
        let (registry, labels) = of_two();
        let began = Instant::now();
        starts(&labels, "a", 100);
        starts(&labels, "b", 100);
        starts(&labels, "c", 10);
        for halves in 1..=4 {
            labels.name_the_busiest(began + HALF_LIFE * halves);
        }
        starts(&labels, "c", 13);
        labels.name_the_busiest(began + HALF_LIFE * 4);
        assert_eq!(shown(&registry), pairs(&[("b", 100), ("c", 0), ("other", 23)]));
    }

    #[test]
    fn a_tenant_named_other_is_counted_with_the_others() {
        let (registry, labels) = of_two();
        for tenant in ["other", "a", "b", "c"] {
            starts(&labels, tenant, 1);
        }
        assert_eq!(shown(&registry), pairs(&[("a", 1), ("b", 1), ("other", 2)]));
    }
}
