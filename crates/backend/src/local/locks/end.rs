//! Renewing a hold, and ending it.

use std::mem::discriminant;
use std::time::Duration;

use interlock_model::lock::{Grant, LockEnd, LockEvent, LockName};
use interlock_model::{Fence, LockRequest, LockToken, Timestamp};

use super::super::tables::{Changes, Decision, Table, View, read};
use super::acquire::whose_turn;
use super::place::Place;
use super::record::Lock;
use crate::StoreError;
use crate::locks::{ForcedRelease, Turn};

impl Lock<'_> {
    /// Why this token opens nothing: it never did, or does no more.
    pub(super) fn refusal(&self, token: &LockToken) -> Result<StoreError, StoreError> {
        if !self.is_known() {
            return Ok(StoreError::not_found("lock", self.name.resource()));
        }
        let held = self.ended(token)?.map_or(Fence::NONE, |event| event.fence);
        Ok(StoreError::Fenced { held, current: self.record.fence })
    }
}

pub(super) fn renew(
    view: &dyn View,
    now: Timestamp,
    (name, token): (&LockName, &LockToken),
    ttl: Duration,
) -> Result<Decision<Turn<Grant>>, StoreError> {
    change(view, now, name, |lock| match lock.record.holders.iter_mut().find(|grant| grant.token == *token) {
        Some(grant) => {
            grant.expires_at = now + ttl;
            Ok(grant.clone())
        }
        None => Err(lock.refusal(token)?),
    })
}

pub(super) fn release(
    view: &dyn View,
    now: Timestamp,
    (name, token): (&LockName, &LockToken),
) -> Result<Decision<Turn<()>>, StoreError> {
    change(view, now, name, |lock| end_once(lock, token, LockEnd::Released))
}

pub(super) fn force(
    view: &dyn View,
    now: Timestamp,
    forced: &ForcedRelease,
) -> Result<Decision<Turn<()>>, StoreError> {
    let end = LockEnd::ForceReleased { by: forced.by.clone(), reason: forced.reason.clone() };
    change(view, now, &forced.lock, |lock| end_once(lock, &forced.expected, end))
}

/// Ends the hold; fine if it was ended the same way before, for then only the answer was lost.
fn end_once(lock: &mut Lock<'_>, token: &LockToken, end: LockEnd) -> Result<(), StoreError> {
    if lock.record.holders.iter().any(|grant| grant.token == *token) {
        lock.end(token, end);
        return Ok(());
    }
    let is_same =
        |event: LockEvent| event.end.is_some_and(|ended| discriminant(&ended) == discriminant(&end));
    if lock.ended(token)?.is_some_and(is_same) {
        return Ok(());
    }
    Err(lock.refusal(token)?)
}

pub(super) fn withdraw(
    view: &dyn View,
    now: Timestamp,
    name: &LockName,
    (request, call): (&LockRequest, &LockToken),
) -> Result<Decision<Turn<()>>, StoreError> {
    change(view, now, name, |lock| {
        lock.leave_by(request, call);
        // What another call was told of, or had made, is not this one's to end.
        let is_its_own =
            |grant: &&Grant| grant.request == *request && grant.token == *call && grant.call == *call;
        let granted = lock.record.holders.iter().find(is_its_own);
        if let Some(token) = granted.map(|grant| grant.token.clone()) {
            lock.end(&token, LockEnd::Withdrawn);
        }
        Ok(())
    })
}

/// Does something to the lock and says whose turn it is then. Refused, it is not even swept: nothing was done.
fn change<T>(
    view: &dyn View,
    now: Timestamp,
    name: &LockName,
    act: impl FnOnce(&mut Lock<'_>) -> Result<T, StoreError>,
) -> Result<Decision<Turn<T>>, StoreError> {
    let mut changes = Changes::default();
    let home = Place::of(name).home().to_owned();
    let tally = read(view, Table::LockTallies, &home)?.unwrap_or_default();
    let mut lock = Lock::load(view, name, now, tally)?;
    let answer = act(&mut lock)?;
    let next = whose_turn(&lock);
    let after = lock.save(&mut changes);
    if after != tally {
        changes.put(Table::LockTallies, home, &after);
    }
    Ok(Decision { answer: Turn { answer, next }, changes })
}
