//! Numbers by tenant, for a bounded number of tenants.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use interlock_model::TenantId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Seconds;

/// The label of every tenant that has none of its own.
pub(super) const OTHER: &str = "other";

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
    start_wait: Histogram,
    rerun_wait: Histogram,
}

impl TenantMetrics {
    pub(crate) fn decided(&self, endpoint: Endpoint, outcome: AdmissionOutcome, took: Duration) {
        self.admissions[outcome as usize].inc();
        match endpoint {
            Endpoint::Start => self.start_wait.observe(took.as_secs_f64()),
            Endpoint::Rerun => self.rerun_wait.observe(took.as_secs_f64()),
        }
    }
}

#[derive(Debug)]
pub(super) struct TenantLabels {
    admissions: Family<AdmissionLabels, Counter>,
    waits: Family<WaitLabels, Histogram, Seconds>,
    known: RwLock<HashMap<TenantId, Arc<TenantMetrics>>>,
    other: Arc<TenantMetrics>,
    names_max: usize,
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
        Self { admissions, waits, known: RwLock::default(), other, names_max }
    }

    pub(super) fn names_max(&self) -> usize {
        self.names_max
    }

    pub(super) fn of(&self, tenant: &TenantId) -> Arc<TenantMetrics> {
        if let Some(found) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(tenant) {
            return found.clone();
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.names_max && !known.contains_key(tenant) {
            return self.other.clone();
        }
        let make = || Arc::new(resolve(&self.admissions, &self.waits, tenant.as_str()));
        known.entry(tenant.clone()).or_insert_with(make).clone()
    }
}

fn resolve(
    admissions: &Family<AdmissionLabels, Counter>,
    waits: &Family<WaitLabels, Histogram, Seconds>,
    tenant: &str,
) -> TenantMetrics {
    let wait = |endpoint| waits.get_or_create_owned(&WaitLabels { tenant: tenant.to_owned(), endpoint });
    TenantMetrics {
        admissions: AdmissionOutcome::ALL.map(|outcome| {
            let labels = AdmissionLabels { tenant: tenant.to_owned(), outcome: outcome.name() };
            admissions.get_or_create_owned(&labels)
        }),
        start_wait: wait("start"),
        rerun_wait: wait("rerun"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_stand_in_their_own_place() {
        for (place, outcome) in AdmissionOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
    }

    #[test]
    fn tenants_beyond_the_bound_share_one_label() {
        let labels = TenantLabels::register(&mut Registry::default(), 2);
        let of = |name: &str| labels.of(&name.parse().unwrap());
        let (first, _second) = (of("a"), of("b"));
        assert!(Arc::ptr_eq(&of("c"), &of("d")) && Arc::ptr_eq(&of("c"), &labels.other));
        assert!(Arc::ptr_eq(&of("a"), &first));
    }
}
