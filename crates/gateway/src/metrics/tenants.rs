//! Numbers by tenant, for a bounded number of tenants.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use interlock_model::TenantId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Seconds;

/// The label of every tenant that has none of its own.
pub(super) const OTHER: &str = "other";

/// The largest numbers by their tenants' names, and those of all others together.
pub(super) fn named(mut numbers: Vec<(TenantId, u32)>, names_max: usize) -> BTreeMap<String, u64> {
    numbers.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let rest = numbers.split_off(numbers.len().min(names_max));
    let mut named: BTreeMap<String, u64> =
        numbers.into_iter().map(|(tenant, number)| (tenant.to_string(), u64::from(number))).collect();
    // Added: a tenant may have that very name.
    *named.entry(OTHER.to_owned()).or_default() +=
        rest.iter().map(|(_, number)| u64::from(*number)).sum::<u64>();
    named
}

/// What became of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionOutcome {
    Admitted,
    Replayed,
    KeyReused,
    AtCapacity,
    /// Not found, not valid, not allowed.
    Refused,
    Unavailable,
    Unknown,
}

impl AdmissionOutcome {
    const ALL: [Self; 7] = [
        Self::Admitted,
        Self::Replayed,
        Self::KeyReused,
        Self::AtCapacity,
        Self::Refused,
        Self::Unavailable,
        Self::Unknown,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Replayed => "replayed",
            Self::KeyReused => "key_reused",
            Self::AtCapacity => "at_capacity",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Start,
    Rerun,
}

impl Endpoint {
    const ALL: [Self; 2] = [Self::Start, Self::Rerun];

    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Rerun => "rerun",
        }
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

/// The numbers of one tenant, looked up once: the start of a run must not pay for labels.
#[derive(Debug)]
pub(crate) struct TenantMetrics {
    admissions: [Counter; AdmissionOutcome::ALL.len()],
    waits: [Histogram; Endpoint::ALL.len()],
}

impl TenantMetrics {
    pub(crate) fn decided(&self, endpoint: Endpoint, outcome: AdmissionOutcome, took: Duration) {
        self.admissions[outcome as usize].inc();
        self.waits[endpoint as usize].observe(took.as_secs_f64());
    }
}

/// How long it takes until a start counts half in who is busiest.
const HALF_LIFE: Duration = Duration::from_mins(10);

/// Tenants without a name of their own that are counted, so that the busiest of them can get one.
const UNNAMED_MAX: usize = 10_000;

/// The busiest tenants by name, the others as one.
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

/// A tenant, and how often it was asked for lately.
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

    pub(super) fn names_max(&self) -> usize {
        self.names_max
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

    /// The first ones get a name at once, later ones when they are among the busiest.
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

    /// Gives names to those without one that have become twice as busy as the quietest with one, who lose theirs. Twice, so
    /// that two of about the same kind do not take turns: a series that ends and comes back is of little use.
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

    /// Ends the series of a tenant. What it had counted is not added to the others: that would look like a rush of theirs.
    fn retire(&self, tenant: &str) {
        for outcome in AdmissionOutcome::ALL {
            self.admissions.remove(&AdmissionLabels { tenant: tenant.to_owned(), outcome: outcome.name() });
        }
        for endpoint in Endpoint::ALL {
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
        waits: Endpoint::ALL.map(|endpoint| {
            let labels = WaitLabels { tenant: tenant.to_owned(), endpoint: endpoint.name() };
            waits.get_or_create_owned(&labels)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_and_endpoints_stand_in_their_own_place() {
        for (place, outcome) in AdmissionOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
        for (place, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, place);
        }
    }

    /// Starts of a tenant.
    fn starts(labels: &TenantLabels, tenant: &str, count: usize) {
        for _ in 0..count {
            let metrics = labels.of(&tenant.parse().unwrap());
            metrics.decided(Endpoint::Start, AdmissionOutcome::Admitted, Duration::from_millis(1));
        }
    }

    /// The admitted starts that are told of each tenant, in the order of names.
    fn told(registry: &Registry) -> Vec<(String, u64)> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let lines = text.lines().filter(|line| line.contains("outcome=\"admitted\""));
        let mut told: Vec<_> = lines
            .map(|line| {
                let tenant = line.split('"').nth(1).unwrap().to_owned();
                let count = line.rsplit(' ').next().unwrap().parse().unwrap();
                assert!(text.contains(&format!("admission_wait_seconds_count{{tenant=\"{tenant}\"")));
                (tenant, count)
            })
            .collect();
        told.sort();
        told
    }

    fn of_two() -> (Registry, TenantLabels) {
        let mut registry = Registry::default();
        let labels = TenantLabels::register(&mut registry, 2);
        (registry, labels)
    }

    fn pairs(told: &[(&str, u64)]) -> Vec<(String, u64)> {
        told.iter().map(|(tenant, count)| ((*tenant).to_owned(), *count)).collect()
    }

    #[test]
    fn tenants_beyond_the_bound_share_one_label() {
        let (registry, labels) = of_two();
        for tenant in ["a", "b", "c", "d", "a"] {
            starts(&labels, tenant, 1);
        }
        assert_eq!(told(&registry), pairs(&[("a", 2), ("b", 1), ("other", 2)]));
    }

    #[test]
    fn who_becomes_twice_as_busy_as_the_quietest_takes_its_name() {
        let (registry, labels) = of_two();
        let now = Instant::now();
        starts(&labels, "a", 9);
        starts(&labels, "b", 5);
        starts(&labels, "c", 10);
        labels.name_the_busiest(now);
        assert_eq!(told(&registry), pairs(&[("a", 9), ("b", 5), ("other", 10)]), "not twice as busy");
        starts(&labels, "c", 1);
        labels.name_the_busiest(now);
        assert_eq!(told(&registry), pairs(&[("a", 9), ("c", 0), ("other", 11)]));
        starts(&labels, "c", 3);
        starts(&labels, "b", 1);
        labels.name_the_busiest(now);
        assert_eq!(told(&registry), pairs(&[("a", 9), ("c", 3), ("other", 12)]));
    }

    #[test]
    fn who_was_busy_long_ago_makes_room() {
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
        assert_eq!(told(&registry), pairs(&[("b", 100), ("c", 0), ("other", 23)]));
    }

    #[test]
    fn a_tenant_that_is_named_other_is_one_of_the_others() {
        let (registry, labels) = of_two();
        for tenant in ["other", "a", "b", "c"] {
            starts(&labels, tenant, 1);
        }
        assert_eq!(told(&registry), pairs(&[("a", 1), ("b", 1), ("other", 2)]));
    }
}
