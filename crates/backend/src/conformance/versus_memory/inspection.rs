//! Violations of invariants, found and repaired.

use interlock_model::doctor::{Finding, Invariant, Realm};

use super::known::Known;
use super::{Sampled, Walk, sampled};
use crate::inspection::OF_UNLISTED;
use crate::verbs::{Inspect, InspectUnlisted, Repair};
use crate::{Page, PageRequest, Store, StoreError};

/// What is broken in the rows of both stores, so that the verbs that repair have something to do.
pub(super) const PLANTED: &[Invariant] =
    &[Invariant::JobInNoIndex, Invariant::SlotWithoutRun, Invariant::RunWithoutSlot, Invariant::TimerMissing];

impl Sampled for Inspect {
    const WEIGHT: u32 = 3;

    fn sample(walk: &mut Walk) -> Option<Self> {
        let page = PageRequest { limit: 10_000, after: None };
        Some(Self { tenant: walk.tenant(), invariant: walk.invariant(), grace: walk.grace(), page })
    }

    fn learn(&self, answer: &Page<Finding>, known: &mut Known) {
        known.findings.extend(answer.items.iter().cloned());
    }

    /// Which rows a page goes through is the backend's own.
    async fn answer_of(mut self, store: &Store) -> Result<Page<Finding>, StoreError> {
        let mut items = Vec::new();
        loop {
            let page = store.call(self.clone()).await?;
            items.extend(page.items);
            self.page.after = page.next;
            if self.page.after.is_none() {
                return Ok(Page { items, next: None });
            }
        }
    }

    /// The sentence for people is the backend's own, and so is the order of its rows.
    fn comparable(answer: Page<Finding>) -> Page<Finding> {
        let mut answer = answer.map(|finding| Finding { detail: String::new(), ..finding });
        answer.items.sort_by(|one, other| (&one.tenant, &one.subject).cmp(&(&other.tenant, &other.subject)));
        answer
    }
}

impl Sampled for InspectUnlisted {
    const WEIGHT: u32 = 3;

    fn sample(walk: &mut Walk) -> Option<Self> {
        let page = PageRequest { limit: 10_000, after: None };
        let tenant = Some(walk.tenant()).filter(|_| walk.flip(0.5));
        // A backend may end reservations by itself: then another finds one that is left behind.
        let compared = OF_UNLISTED.into_iter().filter(|one| *one != Invariant::ReservationLeftBehind);
        let invariant = walk.one_of(&compared.collect::<Vec<_>>());
        Some(Self { tenant, invariant, grace: walk.grace(), page })
    }

    fn learn(&self, answer: &Page<Finding>, known: &mut Known) {
        known.findings.extend(answer.items.iter().cloned());
    }

    async fn answer_of(mut self, store: &Store) -> Result<Page<Finding>, StoreError> {
        let mut items = Vec::new();
        loop {
            let page = store.call(self.clone()).await?;
            items.extend(page.items);
            self.page.after = page.next;
            if self.page.after.is_none() {
                return Ok(Page { items, next: None });
            }
        }
    }

    fn comparable(answer: Page<Finding>) -> Page<Finding> {
        Inspect::comparable(answer)
    }
}

sampled!(Repair, 5, |walk| {
    if let Some(finding) = walk.pick(|known| &known.findings).filter(|_| walk.flip(0.7)) {
        let (invariant, subject) = (finding.invariant, finding.subject);
        return Some(Repair { tenant: finding.tenant?, invariant, subject, grace: walk.grace() });
    }
    let (tenant, job, _) = walk.job()?;
    let subject = walk.one_of(&[job.to_string(), job.run.to_string(), tenant.to_string()]);
    Some(Repair { tenant, invariant: walk.invariant(), subject, grace: walk.grace() })
});

impl Walk {
    pub(super) fn invariant(&mut self) -> Invariant {
        let of_tenants = Invariant::ALL.iter().filter(|invariant| invariant.realm() == Realm::Tenant);
        let of_tenants: Vec<Invariant> = of_tenants.copied().collect();
        self.one_of(&of_tenants)
    }

    fn grace(&mut self) -> std::time::Duration {
        self.millis(0..1_500)
    }
}
