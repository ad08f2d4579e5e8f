//! Idempotency keys that are reserved under the admission lock, and what that lock means to an admission.

use interlock_model::admission::{IdempotentIntent, KeyRecord, KeyVerdict, Reservation};
use interlock_model::limit::document::OnFull;
use interlock_model::lock::LockName;
use interlock_model::{Fence, TenantId, Timestamp, WorkflowId};

use super::draft::decide;
use super::slots::LimitedTenant;
use super::store::look;
use super::tables::{Table, View, read};
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
    locks::check_fence(view, now, &LockName::Admission(start.tenant.clone()), held)?;
    let Some(intent) = &start.intent else { return Ok(()) };
    match verdict(view, now, (&start.tenant, &start.workflow), intent)? {
        KeyVerdict::Reserved(run, _) if run == start.run => Ok(()),
        KeyVerdict::Reserved(_, fence) => Err(StoreError::Fenced { held, current: fence }),
        KeyVerdict::Fresh | KeyVerdict::Replay(_) | KeyVerdict::Mismatch(_) => {
            Err(StoreError::Fenced { held, current: held })
        }
    }
}

decide!(ReserveIdempotencyKey, |verb, draft| {
    let ReserveIdempotencyKey { tenant, workflow, intent, run, fence, lease } = verb;
    let (view, now) = (draft.view, draft.now);
    let usage = LimitedTenant::read(view, tenant)?.usage();
    let taken_over = match verdict(view, now, (tenant, workflow), intent)? {
        KeyVerdict::Fresh => Fence::NONE,
        KeyVerdict::Reserved(_, fence) => fence,
        KeyVerdict::Mismatch(run) => return Ok(Reserved::KeyReused { run, usage }),
        KeyVerdict::Replay(run) => {
            let status = inbox::status(view, tenant, run)?;
            return Ok(Reserved::Replayed { run, status, usage });
        }
    };
    locks::check_fence(view, now, &LockName::Admission(tenant.clone()), *fence)?;
    if taken_over > *fence {
        return Err(StoreError::Fenced { held: *fence, current: taken_over });
    }
    let record = KeyRecord {
        run: *run,
        fingerprint: intent.fingerprint.clone(),
        expires_at: None,
        reservation: Some(Reservation { fence: *fence, until: now + *lease }),
    };
    draft.put(Table::IdempotencyKeys, rows::idempotency(tenant, workflow, &intent.key), &record);
    Ok(Reserved::Granted)
});

decide!(ReleaseIdempotencyKey, |verb, draft| {
    let key = rows::idempotency(&verb.tenant, &verb.workflow, &verb.key);
    let record: Option<KeyRecord> = draft.read(Table::IdempotencyKeys, &key)?;
    let record = record.filter(|record| record.run == verb.run);
    let Some(reservation) = record.and_then(|record| record.reservation) else { return Ok(false) };
    draft.delete(Table::IdempotencyKeys, key);
    Ok(draft.now < reservation.until)
});

look!(CountRuns, |verb, view| {
    let limited = LimitedTenant::read(view, &verb.tenant)?;
    // A named limit may let it join a run.
    let has_limits = limited.tenant.named_limits > 0 || limited.tenant.system_limits > 0;
    let rejects = limited.limits.queue.on_full == OnFull::Reject && !has_limits;
    Ok(Count { usage: limited.usage(), slot_flow: limited.tenant.slot_flow, rejects })
});
