//! Keys that are reserved under the admission lock, and what holding that lock means to an admission.

use async_trait::async_trait;
use interlock_model::admission::{IdempotentIntent, KeyRecord, KeyVerdict, Reservation, StartRun};
use interlock_model::lock::LockName;
use interlock_model::run::Head;
use interlock_model::{Fence, IdempotencyKey, RunId, TenantId, Timestamp, WorkflowId};

use super::slots::Gate;
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Table, View, read};
use super::{locks, rows};
use crate::StoreError;
use crate::reservations::{Count, ReservationStore, Reserve, Reserved};

/// What the key says about a start.
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

/// Refuses a start that says it is under the admission lock, unless it is, and its key is still reserved for it.
pub(super) fn check_hold(view: &dyn View, now: Timestamp, start: &StartRun) -> Result<(), StoreError> {
    let Some(held) = start.hold else { return Ok(()) };
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

fn reserve(view: &dyn View, now: Timestamp, asked: &Reserve) -> Result<Decision<Reserved>, StoreError> {
    let Reserve { tenant, workflow, intent, run, fence, lease } = asked;
    let usage = Gate::read(view, tenant)?.usage();
    let taken_over = match verdict(view, now, (tenant, workflow), intent)? {
        KeyVerdict::Fresh => Fence::NONE,
        KeyVerdict::Reserved(_, fence) => fence,
        KeyVerdict::Mismatch(run) => return Ok(Decision::unchanged(Reserved::KeyReused { run, usage })),
        KeyVerdict::Replay(run) => {
            let head: Option<Head> = read(view, Table::Heads, &rows::run(tenant, run))?;
            let status = head.map(|head| head.status);
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

fn release(view: &dyn View, key: &str, run: RunId) -> Result<Decision<bool>, StoreError> {
    let record: Option<KeyRecord> = read(view, Table::IdempotencyKeys, key)?;
    let mut changes = Changes::default();
    let is_its_own = record.is_some_and(|record| record.reservation.is_some() && record.run == run);
    if is_its_own {
        changes.delete(Table::IdempotencyKeys, key);
    }
    Ok(Decision { answer: is_its_own, changes })
}

#[async_trait]
impl<E: Executor> ReservationStore for LocalStore<E> {
    async fn reserve_key(&self, asked: &Reserve) -> Result<Reserved, StoreError> {
        let asked = asked.clone();
        self.write("reserve a key", move |view, now| reserve(view, now, &asked)).await
    }

    async fn release_key(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
        key: &IdempotencyKey,
        run: RunId,
    ) -> Result<bool, StoreError> {
        let key = rows::idempotency(tenant, workflow, key);
        self.write("release a key", move |view, _| release(view, &key, run)).await
    }

    async fn count_runs(&self, tenant: &TenantId) -> Result<Count, StoreError> {
        let tenant = tenant.clone();
        let look = move |view: &dyn View, _| {
            let gate = Gate::read(view, &tenant)?;
            Ok(Count { usage: gate.usage(), slot_flow: gate.tenant.slot_flow })
        };
        self.read("count runs", look).await
    }
}
