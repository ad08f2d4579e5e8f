//! Asking for a lock.

use std::time::Duration;

use interlock_model::lock::{Grant, LockMode, SHARING_MAX, Waiter};
use interlock_model::{Fence, LockRequest, Timestamp};

use super::super::store::Decide;
use super::super::tables::{Changes, Decided, Decision, Table, View};
use super::place::Place;
use super::record::Lock;
use super::sweep;
use crate::StoreError;
use crate::locks::{Acquired, Busy, LockQuota, Turn};
use crate::verbs::AcquireLock;

impl Decide for AcquireLock {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Turn<Acquired>> {
        let mut changes = Changes::default();
        let place = Place::of(&self.lock);
        let tally = sweep::sweep(view, now, &mut changes, &self.lock)?;
        let mut lock = Lock::load(view, &self.lock, now, tally)?;
        let answer = answer(&mut lock, &mut changes, self)?;
        let next = whose_turn(&lock).filter(|request| *request != self.request);
        let next = next.or_else(|| must_learn_expiry(&lock, self, &answer));
        let tally = lock.save(&mut changes);
        changes.put(Table::LockTallies, place.home(), &tally);
        Ok(Decision { answer: Turn { answer, next }, changes })
    }
}

fn answer(lock: &mut Lock<'_>, changes: &mut Changes, asked: &AcquireLock) -> Result<Acquired, StoreError> {
    if let Some(grant) = held_already(lock, asked)? {
        return Ok(Acquired::Granted(grant));
    }
    let waiting = lock.queue.iter().find(|(_, waiter)| waiter.request == asked.request);
    if waiting.is_some_and(|(_, waiter)| waiter.owner != asked.owner || waiter.mode != asked.mode) {
        return Err(another_intent(&asked.request));
    }
    let is_first = lock.queue.first().is_none_or(|(_, first)| first.request == asked.request);
    if is_first && fits(lock, asked.mode) {
        let (limit, current) = (asked.limits.held_max, lock.others.held);
        if lock.record.holders.is_empty() && current >= limit {
            lock.leave(&asked.request);
            return Ok(Acquired::OverQuota { what: LockQuota::Held, limit, current });
        }
        return Ok(Acquired::Granted(lock.grant(changes, proposed(lock, asked))?));
    }
    Ok(stay_or_leave(lock, asked))
}

/// The grant that is the caller's already: by its token, or by the request that was granted.
fn held_already(lock: &mut Lock<'_>, asked: &AcquireLock) -> Result<Option<Grant>, StoreError> {
    if let Some(token) = &asked.held {
        let expires_at = lock.now + asked.ttl;
        let Some(grant) = lock.record.holders.iter_mut().find(|grant| grant.token == *token) else {
            return Err(lock.refusal(token)?);
        };
        if grant.mode != asked.mode {
            return Err(StoreError::Conflict(
                "the lease is in another mode; release it and acquire the lock again".to_owned(),
            ));
        }
        // Re-entering renews.
        grant.expires_at = grant.expires_at.max(expires_at);
        return Ok(Some(grant.clone()));
    }
    let Some(grant) = lock.record.holders.iter_mut().find(|grant| grant.request == asked.request) else {
        return Ok(None);
    };
    if grant.owner != asked.owner || grant.mode != asked.mode {
        return Err(another_intent(&asked.request));
    }
    grant.call = asked.call.clone();
    Ok(Some(grant.clone()))
}

fn another_intent(request: &LockRequest) -> StoreError {
    StoreError::Conflict(format!(
        "the request id {request} was used with another owner or mode; use a new one for a new request"
    ))
}

fn proposed(lock: &Lock<'_>, asked: &AcquireLock) -> Grant {
    Grant {
        owner: asked.owner.clone(),
        mode: asked.mode,
        token: asked.call.clone(),
        request: asked.request.clone(),
        call: asked.call.clone(),
        fence: Fence::NONE,
        acquired_at: lock.now,
        expires_at: lock.now + asked.ttl,
    }
}

/// Whether one more in this mode could hold it.
fn fits(lock: &Lock<'_>, mode: LockMode) -> bool {
    let holders = &lock.record.holders;
    let all_share = mode == LockMode::Shared && holders.iter().all(|holder| holder.mode == LockMode::Shared);
    holders.is_empty() || (all_share && holders.len() < SHARING_MAX)
}

fn stay_or_leave(lock: &mut Lock<'_>, asked: &AcquireLock) -> Acquired {
    let now = lock.now;
    let place = lock.queue.iter().position(|(_, waiter)| waiter.request == asked.request);
    match (asked.stay, place) {
        (None, _) => {
            lock.leave_by(&asked.request, &asked.call);
            Acquired::Refused(busy(lock, lock.queue.len()))
        }
        (Some(silence), Some(place)) => {
            let waiter = &mut lock.queue[place].1;
            waiter.alive_until = now + silence;
            waiter.attended_by(&asked.call);
            Acquired::Waiting(busy(lock, place))
        }
        (Some(_), None) if lock.queue.len() >= asked.limits.line_max as usize => {
            Acquired::Refused(Busy { is_line_full: true, ..busy(lock, lock.queue.len()) })
        }
        (Some(_), None) if lock.all_waiting() >= asked.limits.waiting_max => Acquired::OverQuota {
            what: LockQuota::Waiting,
            limit: asked.limits.waiting_max,
            current: lock.all_waiting(),
        },
        (Some(silence), None) => {
            lock.enter(Waiter {
                request: asked.request.clone(),
                owner: asked.owner.clone(),
                mode: asked.mode,
                calls: vec![asked.call.clone()],
                since: now,
                alive_until: now + silence,
            });
            Acquired::Waiting(busy(lock, lock.queue.len() - 1))
        }
    }
}

fn busy(lock: &Lock<'_>, place: usize) -> Busy {
    let held = lock.record.holders.first();
    Busy {
        holder: held.map(|grant| grant.owner.clone()),
        held_for: held.map_or(Duration::ZERO, |_| lock.now.since(lock.record.since)),
        position: u32::try_from(place + 1).unwrap_or(u32::MAX),
        may_change_in: may_change_in(lock, place),
        is_line_full: false,
    }
}

/// The first in the queue waits for a lease to expire. The second, if it is the first's turn, for the first to go offline.
fn may_change_in(lock: &Lock<'_>, place: usize) -> Option<Duration> {
    let first = lock.queue.first().map(|(_, waiter)| waiter);
    let at = match place {
        0 => lock.record.holders.iter().map(|grant| grant.expires_at).min(),
        1 => first.filter(|first| fits(lock, first.mode)).map(|first| first.alive_until),
        _ => None,
    };
    at.map(|at| at.since(lock.now))
}

/// The first in the queue, if it would be granted now.
pub(super) fn whose_turn(lock: &Lock<'_>) -> Option<LockRequest> {
    let (_, first) = lock.queue.first()?;
    fits(lock, first.mode).then(|| first.request.clone())
}

/// The first in the queue, if it would not ask before the new lease expires: it has to learn when that is.
fn must_learn_expiry(lock: &Lock<'_>, asked: &AcquireLock, answer: &Acquired) -> Option<LockRequest> {
    let Acquired::Granted(grant) = answer else { return None };
    let (_, first) = lock.queue.first()?;
    let is_new = grant.token == asked.call;
    (is_new && grant.expires_at < first.alive_until).then(|| first.request.clone())
}
