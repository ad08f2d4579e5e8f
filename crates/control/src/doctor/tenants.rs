//! The rows of the tenants, a few tenants at a time.

use futures_util::StreamExt as _;
use futures_util::stream;
use interlock_backend::inspection::Inspect;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::TenantId;
use interlock_model::doctor::{Invariant, Realm};
use tokio::time::{Instant, timeout_at};

use super::notes::Notes;
use super::{Doctor, DoctorScope, DoctorTenants, grace};
use crate::every_tenant::EveryTenant;

/// Rows that one step looks at.
const ROWS_A_PAGE: usize = 1_000;

/// Tenants that are looked at at once.
const TENANTS_AT_ONCE: usize = 4;

/// Tenants for which the store does not answer before the others are left out: each costs a time-out.
const SILENCES_MAX: usize = 3;

pub(super) async fn look(doctor: &Doctor, scope: &DoctorScope, ends_at: Instant) -> Notes {
    let mut walk = Walk { doctor, invariants: scope.invariants(Realm::Tenant), ends_at, silences: 0 };
    let mut notes = Notes::default();
    if walk.invariants.is_empty() {
        return notes;
    }
    if let DoctorTenants::One(tenant) = &scope.tenants {
        notes.merge(walk.tenant(tenant.clone()).await.0);
        return notes;
    }
    let mut all = EveryTenant::new();
    loop {
        let tenants = match all.next_page(&doctor.process).await {
            Ok(Some(tenants)) => tenants,
            Ok(None) => return notes,
            Err(error) => {
                notes.unseen("the rows of the tenants", &error);
                return notes;
            }
        };
        if let Err(why) = walk.page(tenants, &mut notes).await {
            notes.unseen("the rows of the other tenants", &why);
            return notes;
        }
    }
}

struct Walk<'a> {
    doctor: &'a Doctor,
    invariants: Vec<Invariant>,
    ends_at: Instant,
    /// Tenants for which the store did not answer.
    silences: usize,
}

/// Whether the store still answers.
type Answers = bool;

impl Walk<'_> {
    /// Why the walk ends here, if it does.
    async fn page(&mut self, tenants: Vec<TenantId>, notes: &mut Notes) -> Result<(), &'static str> {
        let mut silences = self.silences;
        let walk = &*self;
        let looks = tenants.into_iter().map(|tenant| walk.tenant(tenant));
        let mut looks = stream::iter(looks).buffer_unordered(TENANTS_AT_ONCE);
        while let Some((found, answers)) = looks.next().await {
            notes.merge(found);
            silences += usize::from(!answers);
            if silences >= SILENCES_MAX {
                return Err("the store does not answer");
            }
            if Instant::now() >= walk.ends_at {
                return Err("the look took too long");
            }
        }
        drop(looks);
        self.silences = silences;
        Ok(())
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
                // Something is wrong with what was looked at, and with that alone.
                Ok(Err(error)) => notes.unseen(format!("{invariant} of the tenant {tenant}"), &error),
                Err(_) => {
                    let what = format!("{invariant} and what follows, of the tenant {tenant}");
                    notes.unseen(what, &"the look took too long");
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
            let page = self.doctor.process.store.call(asked.clone()).await?;
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
