//! Idempotency keys and queues, of all tenants in one pass for each invariant.

use interlock_backend::inspection::{InspectUnlisted, OF_UNLISTED};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::doctor::{Invariant, Realm};
use tokio::time::timeout_at;

use super::notes::Notes;
use super::tenants::{ROWS_A_PAGE, TOO_LONG, WalkTimes};
use super::{Doctor, DoctorPlace, DoctorScope, DoctorTenants, grace};

/// Whether the invariant is about other rows, too: those are checked tenant by tenant.
pub(super) fn has_listed(invariant: Invariant) -> bool {
    invariant == Invariant::RowDamaged || !OF_UNLISTED.contains(&invariant)
}

fn wanted(scope: &DoctorScope) -> impl Iterator<Item = Invariant> {
    scope.invariants(Realm::Tenant).into_iter().filter(|invariant| OF_UNLISTED.contains(invariant))
}

/// Where the passes begin; none if none is wanted.
pub(super) fn first(scope: &DoctorScope) -> Option<DoctorPlace> {
    wanted(scope).next().map(before)
}

fn before(invariant: Invariant) -> DoctorPlace {
    DoctorPlace::Unlisted { invariant, after: None }
}

/// Goes on from here until the walk pauses. Returns where it is, if there is more.
pub(super) async fn look(
    doctor: &Doctor,
    scope: &DoctorScope,
    (begun, mut after): (Invariant, Option<String>),
    times: WalkTimes,
    notes: &mut Notes,
) -> Option<DoctorPlace> {
    let mut left = wanted(scope).skip_while(|invariant| *invariant != begun).peekable();
    while let Some(invariant) = left.next() {
        match pass(doctor, scope, (invariant, after.take()), times, notes).await {
            PassEnd::Done if times.is_paused() => return left.peek().copied().map(before),
            PassEnd::Done => {}
            PassEnd::Paused(after) => return Some(DoctorPlace::Unlisted { invariant, after: Some(after) }),
            PassEnd::Unseen(why) => {
                let unseen: Vec<_> = std::iter::once(invariant).chain(left).map(Invariant::name).collect();
                notes.unseen(format!("{} among keys and queues", unseen.join(", ")), &why);
                return None;
            }
        }
    }
    None
}

/// How a pass for one invariant ended.
enum PassEnd {
    Done,
    Paused(String),
    /// One sentence about why.
    Unseen(String),
}

async fn pass(
    doctor: &Doctor,
    scope: &DoctorScope,
    (invariant, after): (Invariant, Option<String>),
    times: WalkTimes,
    notes: &mut Notes,
) -> PassEnd {
    let tenant = match &scope.tenants {
        DoctorTenants::All => None,
        DoctorTenants::One(tenant) => Some(tenant.clone()),
    };
    let tenants = u64::from(tenant.is_some() && !has_listed(invariant));
    let page = PageRequest { limit: ROWS_A_PAGE, after };
    let mut asked = InspectUnlisted { tenant, invariant, grace: grace(invariant), page };
    loop {
        let page = match timeout_at(times.ends_at, doctor.process.call(asked.clone())).await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => return PassEnd::Unseen(StoreError::to_string(&error)),
            Err(_) => return PassEnd::Unseen(TOO_LONG.to_owned()),
        };
        for finding in page.items {
            notes.found(finding);
        }
        asked.page.after = page.next;
        match &asked.page.after {
            None => {
                notes.looked_at(invariant, tenants);
                return PassEnd::Done;
            }
            Some(after) if times.is_paused() => return PassEnd::Paused(after.clone()),
            Some(_) => {}
        }
    }
}
