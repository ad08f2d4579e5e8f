//! Checks invariants over everything, and repairs violations.
//!
//! What cannot be checked is part of the report, and does not stop the rest: half of the system may be down.

mod installation;
mod loops;
mod notes;
mod pushes;
mod repair;
mod tenants;
mod unlisted;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::inspection::Probe;
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant, Realm};
use tokio::time::Instant;

use notes::Notes;
pub use repair::{FindingId, FindingOutcome, Repaired, Repairs};
use tenants::WalkTimes;

use crate::process::Process;
use crate::reconcile::Reconcilers;
use crate::workers::Workers;

/// Findings in one report. Further ones are only counted.
pub const FINDINGS_MAX: usize = 1_000;

/// What is late by less is in progress.
const GRACE: Duration = Duration::from_secs(30);

/// An expired lease ends at the next request for a lock of its tenant; without one, the retention loop ends it.
const LOCK_GRACE: Duration = Duration::from_mins(5);

fn grace(invariant: Invariant) -> Duration {
    if invariant == Invariant::LockDebt { LOCK_GRACE } else { GRACE }
}

/// How long one examination may take. What it did not reach by then is reported as unseen.
const BUDGET: Duration = Duration::from_mins(1);

/// A part of an examination, so that no request takes long, however many tenants there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorPage {
    /// Where the part before it ended; none begins with the installation and the first tenant.
    pub after: Option<DoctorPlace>,
    /// After this time no further tenant, and no further step among keys and queues, is begun.
    pub budget: Duration,
}

/// How far an examination is: it checks the installation, then each tenant, then keys and queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoctorPlace {
    /// The last tenant that was checked.
    Tenant(TenantId),
    /// The store's place in the pass for this invariant; none: before its beginning.
    Unlisted { invariant: Invariant, after: Option<String> },
}

impl DoctorPlace {
    fn into_tenant(self) -> Option<TenantId> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::Unlisted { .. } => None,
        }
    }
}

/// What to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorScope {
    pub tenants: DoctorTenants,
    /// Only these; all, if empty.
    pub only: Vec<Invariant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoctorTenants {
    /// Every tenant, and the installation itself.
    All,
    /// The rows of one tenant, and nothing else.
    One(TenantId),
}

impl DoctorScope {
    fn invariants(&self, realm: Realm) -> Vec<Invariant> {
        let is_wanted = |invariant: &Invariant| {
            invariant.realm() == realm && (self.only.is_empty() || self.only.contains(invariant))
        };
        Invariant::ALL.iter().copied().filter(is_wanted).collect()
    }
}

/// What an examination found, and how much of everything it has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoctorReport {
    /// By invariant, tenant and subject.
    pub findings: Vec<Finding>,
    /// Further ones, beyond the bound.
    pub findings_untold: u64,
    pub looked_at: Vec<LookedAt>,
    pub unseen: Vec<Unseen>,
    /// Where the next page begins; none after the last.
    pub next: Option<DoctorPlace>,
}

/// An invariant that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookedAt {
    pub invariant: Invariant,
    /// Tenants that were checked one by one. None for invariants of the installation, and for those that are checked
    /// in all tenants at once.
    pub tenants: u64,
}

/// Something that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    pub what: String,
    /// One sentence.
    pub why: String,
}

/// Checks invariants, and repairs violations.
pub struct Doctor {
    process: Arc<Process>,
    workers: Arc<Workers>,
    reconcilers: Arc<Reconcilers>,
    /// Of the servers; none where there are none.
    probes: Vec<Arc<dyn Probe>>,
    started_at: Instant,
}

impl Doctor {
    pub fn new(
        process: Arc<Process>,
        workers: Arc<Workers>,
        reconcilers: Arc<Reconcilers>,
        probes: Vec<Arc<dyn Probe>>,
    ) -> Self {
        Self { process, workers, reconcilers, probes, started_at: Instant::now() }
    }

    /// Checks every invariant within `scope`. It never fails: what it could not see is part of its report.
    pub async fn examine(&self, scope: &DoctorScope) -> DoctorReport {
        self.examine_page(scope, None).await
    }

    /// The same, of one page; none: of everything at once.
    pub async fn examine_page(&self, scope: &DoctorScope, page: Option<DoctorPage>) -> DoctorReport {
        let mut notes = Notes::default();
        let (began, after) = (Instant::now(), page.as_ref().and_then(|page| page.after.clone()));
        let times = WalkTimes { pauses_at: page.map(|page| began + page.budget), ends_at: began + BUDGET };
        if scope.tenants == DoctorTenants::All && after.is_none() {
            notes.merge(installation::look(self, &scope.invariants(Realm::Installation)).await);
        }
        let (mut next, has_begun) = if let Some(place @ DoctorPlace::Unlisted { .. }) = after {
            (Some(place), false)
        } else {
            let tenant = after.and_then(DoctorPlace::into_tenant);
            let (found, last) = tenants::look(self, scope, tenant, times).await;
            notes.merge(found);
            (last.map(DoctorPlace::Tenant).or_else(|| unlisted::first(scope)), true)
        };
        // At least one step, so that the next page begins somewhere else.
        if let Some(DoctorPlace::Unlisted { invariant, after }) = &next
            && !(has_begun && times.is_paused())
        {
            next = unlisted::look(self, scope, (*invariant, after.clone()), times, &mut notes).await;
        }
        DoctorReport { next, ..notes.into_report() }
    }
}
