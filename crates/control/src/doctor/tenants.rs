//! The rows of the tenants, a few tenants at a time.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use interlock_backend::inspection::Inspect;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Invariant, Realm};
use interlock_model::{TenantId, Timestamp};
use tokio::time::{Instant, timeout_at};

use super::notes::Notes;
use super::{Doctor, DoctorScope, DoctorTenants, grace, pushes, unlisted};
use crate::every_tenant::EveryTenant;

/// Rows that one step reads.
pub(super) const ROWS_A_PAGE: usize = 1_000;

/// Tenants that are checked concurrently.
const TENANTS_AT_ONCE: usize = 4;

/// Tenants for which the store does not answer before the others are skipped: each costs a timeout.
const SILENCES_MAX: usize = 3;

pub(super) const TOO_LONG: &str = "the check took too long";

/// When the walk stops.
#[derive(Clone, Copy)]
pub(super) struct WalkTimes {
    /// No tenant is begun after that; none: all are.
    pub(super) pauses_at: Option<Instant>,
    /// What is not checked by then is reported as unseen.
    pub(super) ends_at: Instant,
}

impl WalkTimes {
    pub(super) fn is_paused(&self) -> bool {
        self.pauses_at.is_some_and(|at| Instant::now() >= at)
    }
}

/// Checks the tenants after this one. Returns with the last of them, if there are more.
pub(super) async fn look(
    doctor: &Doctor,
    scope: &DoctorScope,
    after: Option<TenantId>,
    times: WalkTimes,
) -> (Notes, Option<TenantId>) {
    let mut notes = Notes::default();
    let invariants = scope.invariants(Realm::Tenant);
    let invariants: Vec<_> = invariants.into_iter().filter(|one| unlisted::has_listed(*one)).collect();
    let mut checks_pushes = scope.invariants(Realm::Installation).contains(&Invariant::PushUnconfirmed);
    if invariants.is_empty() && !checks_pushes {
        return (notes, None);
    }
    let mut pushes_at = None;
    if checks_pushes {
        match pushes::time_of_pushes(doctor).await {
            Ok(now) => pushes_at = now,
            Err(error) => {
                notes.unseen(Invariant::PushUnconfirmed.name(), &error);
                checks_pushes = false;
            }
        }
    }
    let walk = Walk { doctor, invariants, checks_pushes, pushes_at, times };
    let mut next = None;
    if let DoctorTenants::One(tenant) = &scope.tenants {
        notes.merge(walk.tenant(tenant.clone()).await.0);
    } else {
        match walk.all(&mut notes, after).await {
            Ok(last) => next = last,
            Err(reason) => notes.unseen("the rows of the tenants", &reason),
        }
    }
    (notes, next)
}

struct Walk<'a> {
    doctor: &'a Doctor,
    invariants: Vec<Invariant>,
    checks_pushes: bool,
    /// The store's time; none if there are no workers on NATS, and so no pushes.
    pushes_at: Option<Timestamp>,
    times: WalkTimes,
}

/// Whether the store still answers.
type Answers = bool;

impl Walk<'_> {
    /// Checks every tenant after this one, until the walk pauses. Returns with the last, if there are more. An error says
    /// why the rest was skipped.
    async fn all(&self, notes: &mut Notes, after: Option<TenantId>) -> Result<Option<TenantId>, String> {
        let (mut tenants, mut checks) = (EveryTenant::after(after.as_ref()), FuturesUnordered::new());
        let (mut silences, mut last) = (0, None);
        loop {
            // At least one, so that the next page begins somewhere else.
            while checks.len() < TENANTS_AT_ONCE
                && !(last.is_some() && self.times.is_paused())
                && let Some(tenant) =
                    tenants.next(&self.doctor.process).await.map_err(|error| error.to_string())?
            {
                last = Some(tenant.clone());
                checks.push(self.tenant(tenant));
            }
            let Some((found, answers)) = checks.next().await else { break };
            notes.merge(found);
            silences += usize::from(!answers);
            if silences >= SILENCES_MAX {
                return Err("the store does not answer; the other tenants were skipped".to_owned());
            }
            if Instant::now() >= self.times.ends_at {
                return Err(TOO_LONG.to_owned());
            }
        }
        let has_more = tenants.next(&self.doctor.process).await.map_err(|error| error.to_string())?;
        Ok(last.filter(|_| has_more.is_some()))
    }

    async fn tenant(&self, tenant: TenantId) -> (Notes, Answers) {
        let mut notes = Notes::default();
        for invariant in &self.invariants {
            match timeout_at(self.times.ends_at, self.invariant(&tenant, *invariant, &mut notes)).await {
                Ok(Ok(())) => notes.looked_at(*invariant, 1),
                Ok(Err(error @ StoreError::Unavailable { .. })) => {
                    notes.unseen(format!("{invariant} and what follows, of the tenant {tenant}"), &error);
                    return (notes, false);
                }
                // Only these rows could not be checked.
                Ok(Err(error)) => notes.unseen(format!("{invariant} of the tenant {tenant}"), &error),
                Err(_) => {
                    let what = format!("{invariant} and what follows, of the tenant {tenant}");
                    notes.unseen(what, &TOO_LONG);
                    return (notes, true);
                }
            }
        }
        self.pushes(&tenant, &mut notes).await;
        (notes, true)
    }

    async fn pushes(&self, tenant: &TenantId, notes: &mut Notes) {
        let invariant = Invariant::PushUnconfirmed;
        if !self.checks_pushes {
            return;
        }
        let Some(now) = self.pushes_at else { return notes.looked_at(invariant, 1) };
        match timeout_at(self.times.ends_at, pushes::unconfirmed(self.doctor, tenant, now)).await {
            Ok(Ok(found)) => {
                notes.looked_at(invariant, 1);
                for finding in found {
                    notes.found(finding);
                }
            }
            Ok(Err(error)) => notes.unseen(format!("{invariant} of the tenant {tenant}"), &error),
            Err(_) => notes.unseen(format!("{invariant} of the tenant {tenant}"), &TOO_LONG),
        }
    }

    async fn invariant(
        &self,
        tenant: &TenantId,
        invariant: Invariant,
        notes: &mut Notes,
    ) -> Result<(), StoreError> {
        let page = PageRequest { limit: ROWS_A_PAGE, after: None };
        let mut asked = Inspect { tenant: tenant.clone(), invariant, grace: grace(invariant), page };
        loop {
            let page = self.doctor.process.call(asked.clone()).await?;
            for finding in page.items {
                notes.found(finding);
            }
            asked.page.after = page.next;
            if asked.page.after.is_none() {
                return Ok(());
            }
        }
    }
}
