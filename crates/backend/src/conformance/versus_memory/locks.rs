//! Locks, asked for by a few who get in each other's way.

use std::time::Duration;

use interlock_model::lock::{LockLimits, LockMode, LockName, StageLock};
use interlock_model::{LockRequest, LockToken};
use rand::RngExt;

use super::super::scene::name;
use super::Walk;
use crate::PageRequest;
use crate::locks::{Acquire, Acquired, ForcedRelease};

/// What the walk knows of locks.
#[derive(Default)]
pub(super) struct LockWalk {
    calls: u64,
    tokens: Vec<(LockName, LockToken)>,
    asked: Vec<(LockName, LockRequest, LockToken)>,
}

impl Walk {
    fn a_lock(&mut self) -> LockName {
        match self.random.random_range(0..10) {
            0 => LockName::Stage(StageLock::Reconciler),
            1 => LockName::Of(self.tenant(), name("a/b")),
            2 => LockName::Of(self.tenant(), name("%2F")),
            3 => LockName::Admission(self.tenant()),
            _ => LockName::Of(self.tenant(), name("a")),
        }
    }

    pub(super) async fn lock_something(&mut self) {
        match self.random.random_range(0..10) {
            0..5 => self.acquire_a_lock().await,
            5..7 => self.renew_or_release().await,
            7 => self.withdraw_or_force().await,
            _ => self.look_at_a_lock().await,
        }
    }

    async fn acquire_a_lock(&mut self) {
        self.locks.calls += 1;
        let lock = self.a_lock();
        let number = self.random.random_range(0..5);
        let held = Self::pick(&mut self.random, &self.locks.tokens).filter(|_| self.random.random_bool(0.1));
        let asked = Acquire {
            lock: lock.clone(),
            owner: name(&format!("owner-{number}")),
            mode: if number % 2 == 0 { LockMode::Shared } else { LockMode::Exclusive },
            ttl: Duration::from_millis(self.random.random_range(50..900)),
            request: name(&format!("request-{}", self.random.random_range(0..6))),
            call: name(&format!("call-{}", self.locks.calls)),
            held: held.filter(|(of, _)| *of == lock).map(|(_, token)| token),
            stay: self
                .random
                .random_bool(0.6)
                .then(|| Duration::from_millis(self.random.random_range(50..900))),
            limits: LockLimits { held_max: 2, waiting_max: 4, line_max: 3 },
        };
        self.locks.asked.push((lock.clone(), asked.request.clone(), asked.call.clone()));
        if let Ok(turn) = same!(self, acquire(&asked))
            && let Acquired::Granted(grant) = turn.answer
        {
            self.locks.tokens.push((lock, grant.token));
        }
    }

    async fn renew_or_release(&mut self) {
        let Some((lock, token)) = Self::pick(&mut self.random, &self.locks.tokens) else { return };
        if self.random.random_bool(0.4) {
            let ttl = Duration::from_millis(self.random.random_range(50..900));
            let _ = same!(self, renew(&lock, &token, ttl));
        } else {
            let _ = same!(self, release(&lock, &token));
        }
    }

    async fn withdraw_or_force(&mut self) {
        if self.random.random_bool(0.5) {
            let Some((lock, request, call)) = Self::pick(&mut self.random, &self.locks.asked) else { return };
            let _ = same!(self, withdraw(&lock, &request, &call));
        } else if let Some((lock, expected)) = Self::pick(&mut self.random, &self.locks.tokens) {
            let forced = ForcedRelease {
                lock,
                expected,
                by: "someone".to_owned(),
                reason: format!("reason {}", self.random.random_range(0..2)),
            };
            let _ = same!(self, force_release(&forced));
        }
    }

    async fn look_at_a_lock(&mut self) {
        let lock = self.a_lock();
        let page = PageRequest { limit: 3, after: None };
        let _ = same!(self, lock(&lock));
        if let Ok(first) = same!(self, lock_history(&lock, &page)) {
            let page = PageRequest { limit: 500, after: first.next };
            let _ = same!(self, lock_history(&lock, &page));
        }
        if let LockName::Of(tenant, _) = &lock {
            let _ = same!(self, locks(tenant, &page));
        }
    }
}
