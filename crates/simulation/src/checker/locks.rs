//! Locks, as the calls and answers say that they must be.

use std::collections::BTreeMap;

use interlock_backend::StoreError;
use interlock_backend::locks::{AcquireLock, Acquired, Turn};
use interlock_model::lock::{CALLS_MAX, Grant, LockMode, LockName};
use interlock_model::{Clock as _, Fence, LockRequest, LockToken, Timestamp};

use super::Checker;
use crate::Invariant;

#[derive(Default)]
pub(super) struct Locks(BTreeMap<LockName, Lock>);

#[derive(Default)]
struct Lock {
    holders: Vec<Grant>,
    line: Vec<Waiting>,
    /// Tokens whose holders have given it back.
    released: Vec<LockToken>,
}

struct Waiting {
    request: LockRequest,
    /// That look for it.
    calls: Vec<LockToken>,
    alive_until: Timestamp,
}

impl Lock {
    fn holds(&self, token: &LockToken) -> bool {
        self.holders.iter().any(|grant| grant.token == *token)
    }

    fn leave_by(&mut self, request: &LockRequest, call: &LockToken) {
        for waiting in self.line.iter_mut().filter(|waiting| waiting.request == *request) {
            waiting.calls.retain(|known| known != call);
        }
        self.line.retain(|waiting| !waiting.calls.is_empty());
    }

    fn leave(&mut self, request: &LockRequest) {
        self.line.retain(|waiting| waiting.request != *request);
    }
}

impl Checker {
    /// The lock without expired leases.
    fn lock(&mut self, name: &LockName) -> &mut Lock {
        let now = self.clock.now();
        let lock = self.locks.0.entry(name.clone()).or_default();
        lock.holders.retain(|grant| now < grant.expires_at);
        lock.line.retain(|waiting| now < waiting.alive_until);
        lock
    }

    /// Whether it is held under this fence now.
    pub(super) fn is_held_under(&mut self, name: &LockName, fence: Fence) -> bool {
        self.lock(name).holders.iter().any(|grant| grant.fence == fence)
    }

    pub(crate) fn lock_asked(&mut self, asked: &AcquireLock, answer: &Result<Turn<Acquired>, StoreError>) {
        let now = self.clock.now();
        let Ok(Turn { answer, .. }) = answer else { return };
        let lock = self.lock(&asked.lock);
        match answer {
            Acquired::Granted(grant) if lock.holds(&grant.token) => {
                let known = lock.holders.iter_mut().find(|known| known.token == grant.token);
                let is_same = known.is_some_and(|known| {
                    known.call = grant.call.clone();
                    known.expires_at = grant.expires_at;
                    known.fence == grant.fence
                });
                self.counts.locks_asked_again += 1;
                self.require(is_same, Invariant::FencesGrow, || {
                    format!("{:?} was answered another fence for the same lease: {grant:?}", asked.request)
                });
            }
            Acquired::Granted(grant) => self.lock_granted(asked, grant),
            Acquired::Waiting(_) => {
                let alive_until = now + asked.stay.unwrap_or_default();
                let (request, call) = (asked.request.clone(), asked.call.clone());
                match lock.line.iter_mut().find(|waiting| waiting.request == request) {
                    Some(known) => {
                        known.alive_until = alive_until;
                        known.calls.retain(|other| *other != call);
                        known.calls.push(call);
                        let forgotten = known.calls.len().saturating_sub(CALLS_MAX);
                        known.calls.drain(..forgotten);
                    }
                    None => lock.line.push(Waiting { request, calls: vec![call], alive_until }),
                }
                self.counts.locks_waited_for += 1;
            }
            Acquired::Refused(_) | Acquired::OverQuota { .. } => {
                lock.leave_by(&asked.request, &asked.call);
                self.counts.locks_refused += 1;
            }
        }
    }

    fn lock_granted(&mut self, asked: &AcquireLock, grant: &Grant) {
        let lock = self.lock(&asked.lock);
        let all_share = lock.holders.iter().chain([grant]).all(|held| held.mode == LockMode::Shared);
        let is_alone = lock.holders.is_empty() || all_share;
        let first = lock.line.first().map(|first| first.request.clone());
        lock.leave(&asked.request);
        lock.holders.push(grant.clone());
        self.counts.locks_granted += 1;
        self.require(is_alone, Invariant::HolderIsLeftAlone, || {
            format!("{:?} was granted to {} while it was held", asked.lock, asked.owner)
        });
        let is_its_turn = first.as_ref().is_none_or(|first| *first == asked.request);
        self.require(is_its_turn, Invariant::LineIsKept, || {
            format!("{:?} was granted to {} before {first:?}, who came first", asked.lock, asked.request)
        });
        if let LockName::Of(tenant, _) | LockName::Admission(tenant) = &asked.lock {
            self.fence_given(&tenant.clone(), grant.fence);
        }
    }

    pub(crate) fn lock_renewed(
        &mut self,
        (name, token): (&LockName, &LockToken),
        answer: &Result<Turn<Grant>, StoreError>,
    ) {
        let lock = self.lock(name);
        let is_held = lock.holds(token);
        if let Ok(Turn { answer: renewed, .. }) = answer {
            let known = lock.holders.iter_mut().filter(|known| known.token == *token);
            known.for_each(|known| known.expires_at = renewed.expires_at);
        }
        self.judge_lock(("renewal", name, token), is_held, answer.is_ok());
    }

    pub(crate) fn lock_released(
        &mut self,
        (name, token): (&LockName, &LockToken),
        answer: &Result<Turn<()>, StoreError>,
    ) {
        let lock = self.lock(name);
        let is_known = lock.holds(token) || lock.released.contains(token);
        if answer.is_ok() {
            lock.holders.retain(|grant| grant.token != *token);
            lock.released.push(token.clone());
        }
        self.judge_lock(("release", name, token), is_known, answer.is_ok());
    }

    pub(crate) fn lock_withdrawn(&mut self, name: &LockName, request: &LockRequest, call: &LockToken) {
        let lock = self.lock(name);
        let before = (lock.holders.len(), lock.line.len());
        lock.leave_by(request, call);
        lock.holders.retain(|grant| grant.token != *call || grant.call != *call);
        let after = (lock.holders.len(), lock.line.len());
        self.counts.locks_withdrawn += u64::from(before != after);
    }

    fn judge_lock(
        &mut self,
        (verb, name, token): (&str, &LockName, &LockToken),
        is_held: bool,
        is_accepted: bool,
    ) {
        self.counts.stale_lock_calls_refused += u64::from(!is_accepted);
        self.require(is_held || !is_accepted, Invariant::NoStaleWrite, || {
            format!("a {verb} of {name:?} under the stale {token} was accepted")
        });
        self.require(!is_held || is_accepted, Invariant::HolderIsLeftAlone, || {
            format!("a {verb} of {name:?} by its holder {token} was refused")
        });
    }

    pub(crate) fn was_never_served(&mut self, who: &str, lock: &LockName) {
        self.violate(Invariant::LineMoves, format!("{who} waited for {lock:?} and was never served"));
    }
}
