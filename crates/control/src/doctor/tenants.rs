//! The rows of the tenants, a few tenants at a time.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use interlock_backend::inspection::Inspect;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::TenantId;
use interlock_model::doctor::{Invariant, Realm};
use tokio::time::{Instant, timeout_at};

use super::notes::Notes;
use super::{Doctor, DoctorScope, DoctorTenants, grace};
use crate::every_tenant::EveryTenant;

/// Rows that one step reads.
const ROWS_A_PAGE: usize = 1_000;

/// Tenants that are checked concurrently.
const TENANTS_AT_ONCE: usize = 4;

/// Tenants for which the store does not answer before the others are skipped: each costs a timeout.
const SILENCES_MAX: usize = 3;

const TOO_LONG: &str = "the check took too long";

pub(super) async fn look(doctor: &Doctor, scope: &DoctorScope, ends_at: Instant) -> Notes {
    let walk = Walk { doctor, invariants: scope.invariants(Realm::Tenant), ends_at };
    let mut notes = Notes::default();
    if walk.invariants.is_empty() {
        return notes;
    }
    if let DoctorTenants::One(tenant) = &scope.tenants {
        notes.merge(walk.tenant(tenant.clone()).await.0);
    } else if let Err(reason) = walk.all(&mut notes).await {
        notes.unseen("the rows of the tenants", &reason);
    }
    notes
}

struct Walk<'a> {
    doctor: &'a Doctor,
    invariants: Vec<Invariant>,
    ends_at: Instant,
}

/// Whether the store still answers.
type Answers = bool;

impl Walk<'_> {
    /// Checks every tenant. An error says why the rest was skipped.
    async fn all(&self, notes: &mut Notes) -> Result<(), String> {
        let (mut tenants, mut checks) = (EveryTenant::default(), FuturesUnordered::new());
        let mut silences = 0;
        loop {
            while checks.len() < TENANTS_AT_ONCE
                && let Some(tenant) =
                    tenants.next(&self.doctor.process).await.map_err(|error| error.to_string())?
            {
                checks.push(self.tenant(tenant));
            }
            let Some((found, answers)) = checks.next().await else { return Ok(()) };
            notes.merge(found);
            silences += usize::from(!answers);
            if silences >= SILENCES_MAX {
                return Err("the store does not answer; the other tenants were skipped".to_owned());
            }
            if Instant::now() >= self.ends_at {
                return Err(TOO_LONG.to_owned());
            }
        }
    }

    async fn tenant(&self, tenant: TenantId) -> (Notes, Answers) {
        let mut notes = Notes::default();
        for invariant in &self.invariants {
            match timeout_at(self.ends_at, self.invariant(&tenant, *invariant, &mut notes)).await {
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
        (notes, true)
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
