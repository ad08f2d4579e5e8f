//! Idempotency keys that are reserved under the admission lock, and what that lock means to an admission.

use interlock_model::admission::{IdempotentIntent, KeyRecord, KeyVerdict, Reservation};
use interlock_model::lock::LockName;
use interlock_model::{Fence, TenantId, Timestamp, WorkflowId};

use super::slots::LimitedTenant;
use super::store::{Decide, Look};
use super::tables::{Changes, Decided, Decision, Table, View, read};
use super::{inbox, locks, rows};
use crate::StoreError;
use crate::reservations::{Count, Reserved};
use crate::verbs::{Admit, CountRuns, ReleaseIdempotencyKey, ReserveIdempotencyKey};

/// What the key means for a start.
pub(super) fn verdict(
    view: &dyn View,
    now: Timestamp,
    (tenant, workflow): (&TenantId, &WorkflowId),
    intent: &IdempotentIntent,
) -> Result<KeyVerdict, StoreError> {
    let key = rows::idempotency(tenant, workflow, &intent.key);
    let record: Option<KeyRecord> = read(view, Table::IdempotencyKeys, &key)?;
    Ok(KeyVerdict::of(record.as_ref(), intent, now))
}

/// Refuses a start that presents a fence of the admission lock, unless the lock is held under it and the key is still
/// reserved for the start.
pub(super) fn check_admission_fence(
    view: &dyn View,
    now: Timestamp,
    admit: &Admit,
) -> Result<(), StoreError> {
    let Some(held) = admit.admission_fence else { return Ok(()) };
    let start = &*admit.request;
    let current = check_lock(view, now, &start.tenant, held)?;
    let Some(intent) = &start.intent else { return Ok(()) };
    match verdict(view, now, (&start.tenant, &start.workflow), intent)? {
        KeyVerdict::Reserved(run, _) if run == start.run => Ok(()),
        KeyVerdict::Reserved(_, fence) => Err(StoreError::Fenced { held, current: fence }),
        KeyVerdict::Fresh | KeyVerdict::Replay(_) | KeyVerdict::Mismatch(_) => {
            Err(StoreError::Fenced { held, current })
        }
    }
}

/// The fence of the tenant's admission lock, if it is held under this one now.
fn check_lock(view: &dyn View, now: Timestamp, tenant: &TenantId, held: Fence) -> Result<Fence, StoreError> {
    let lock = locks::fence_in_force(view, now, &LockName::Admission(tenant.clone()))?;
    if lock.is_live && lock.fence == held {
        Ok(lock.fence)
    } else {
        Err(StoreError::Fenced { held, current: lock.fence })
    }
}

impl Decide for ReserveIdempotencyKey {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Reserved> {
        let ReserveIdempotencyKey { tenant, workflow, intent, run, fence, lease } = self;
        let usage = LimitedTenant::read(view, tenant)?.usage();
        let taken_over = match verdict(view, now, (tenant, workflow), intent)? {
            KeyVerdict::Fresh => Fence::NONE,
            KeyVerdict::Reserved(_, fence) => fence,
            KeyVerdict::Mismatch(run) => return Ok(Decision::unchanged(Reserved::KeyReused { run, usage })),
            KeyVerdict::Replay(run) => {
                let status = inbox::status(view, tenant, run)?;
                return Ok(Decision::unchanged(Reserved::Replayed { run, status, usage }));
            }
        };
        check_lock(view, now, tenant, *fence)?;
        if taken_over > *fence {
            return Err(StoreError::Fenced { held: *fence, current: taken_over });
        }
        let record = KeyRecord {
            run: *run,
            fingerprint: intent.fingerprint.clone(),
            expires_at: None,
            reservation: Some(Reservation { fence: *fence, until: now + *lease }),
        };
        let mut changes = Changes::default();
        changes.put(Table::IdempotencyKeys, rows::idempotency(tenant, workflow, &intent.key), &record);
        Ok(Decision { answer: Reserved::Granted, changes })
    }
}

impl Decide for ReleaseIdempotencyKey {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<bool> {
        let key = rows::idempotency(&self.tenant, &self.workflow, &self.key);
        let record: Option<KeyRecord> = read(view, Table::IdempotencyKeys, &key)?;
        let mut changes = Changes::default();
        let reservation =
            record.filter(|record| record.run == self.run).and_then(|record| record.reservation);
        if reservation.is_some() {
            changes.delete(Table::IdempotencyKeys, key);
        }
        let answer = reservation.is_some_and(|reservation| now < reservation.until);
        Ok(Decision { answer, changes })
    }
}

impl Look for CountRuns {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Count, StoreError> {
        let limited = LimitedTenant::read(view, &self.tenant)?;
        Ok(Count { usage: limited.usage(), slot_flow: limited.tenant.slot_flow })
    }
}
