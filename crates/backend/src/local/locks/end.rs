//! Renewing a lease, and ending it.

use std::mem::discriminant;

use interlock_model::lock::{Grant, LockEnd, LockEvent, LockName};
use interlock_model::{Fence, LockToken, Timestamp};

use super::super::store::Decide;
use super::super::tables::{Changes, Decided, Decision, Table, View, read};
use super::acquire::whose_turn;
use super::place::Place;
use super::record::Lock;
use crate::StoreError;
use crate::locks::Turn;
use crate::verbs::{ForceReleaseLock, ReleaseLock, RenewLock, WithdrawLock};

impl Lock<'_> {
    /// Why this token has no lease: it never had one, or no longer has.
    pub(super) fn refusal(&self, token: &LockToken) -> Result<StoreError, StoreError> {
        if !self.is_known() {
            return Ok(StoreError::not_found("lock", self.name.resource()));
        }
        let held = self.ended(token)?.map_or(Fence::NONE, |event| event.fence);
        Ok(StoreError::Fenced { held, current: self.record.fence })
    }
}

impl Decide for RenewLock {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Turn<Grant>> {
        let (name, token) = (&self.lock, &self.token);
        change(view, now, name, |lock| {
            match lock.record.holders.iter_mut().find(|grant| grant.token == *token) {
                Some(grant) => {
                    grant.expires_at = now + self.ttl;
                    Ok(grant.clone())
                }
                None => Err(lock.refusal(token)?),
            }
        })
    }
}

impl Decide for ReleaseLock {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Turn<()>> {
        let (name, token) = (&self.lock, &self.token);
        change(view, now, name, |lock| end_once(lock, token, LockEnd::Released))
    }
}

impl Decide for ForceReleaseLock {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Turn<()>> {
        let end = LockEnd::ForceReleased { by: self.by.clone(), reason: self.reason.clone() };
        change(view, now, &self.lock, |lock| end_once(lock, &self.expected, end))
    }
}

/// Ends the lease. If it was ended the same way before, only the answer was lost.
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

impl Decide for WithdrawLock {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Turn<()>> {
        let name = &self.lock;
        let (request, call) = (&self.request, &self.call);
        change(view, now, name, |lock| {
            lock.leave_by(request, call);
            // A lease that another call acquired, or was answered with, is not this one's to end.
            let is_its_own =
                |grant: &&Grant| grant.request == *request && grant.token == *call && grant.call == *call;
            let granted = lock.record.holders.iter().find(is_its_own);
            if let Some(token) = granted.map(|grant| grant.token.clone()) {
                lock.end(&token, LockEnd::Withdrawn);
            }
            Ok(())
        })
    }
}

/// Changes the lock, and answers whose turn it is then. A refused change writes nothing, not even what has expired.
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
