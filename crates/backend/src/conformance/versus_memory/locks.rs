//! Locks, requested by a few that compete.

use interlock_model::TenantId;
use interlock_model::lock::{LockLimits, LockMode, LockName, StageLock};
use rand::RngExt as _;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::locks::Acquired;
use crate::verbs::{
    AcquireLock, ForceReleaseLock, ListLockHistory, ListLocks, ReadLock, ReleaseLock, RenewLock, WithdrawLock,
};

sampled!(AcquireLock, 18, |walk| Some(walk.acquire_lock()), |asked, answer, known| {
    let lock = &asked.lock;
    known.lock_calls.push((lock.clone(), asked.request.clone(), asked.call.clone()));
    if let Acquired::Granted(grant) = &answer.answer {
        known.tokens.push((lock.clone(), grant.token.clone()));
        known.lock_fences.push((lock.clone(), grant.fence));
    }
});

sampled!(RenewLock, 3, |walk| {
    let (lock, token) = walk.pick(|known| &known.tokens)?;
    Some(RenewLock { lock, token, ttl: walk.millis(50..900) })
});

sampled!(ReleaseLock, 5, |walk| {
    walk.pick(|known| &known.tokens).map(|(lock, token)| ReleaseLock { lock, token })
});

sampled!(WithdrawLock, 2, |walk| {
    let (lock, request, call) = walk.pick(|known| &known.lock_calls)?;
    Some(WithdrawLock { lock, request, call })
});

sampled!(ForceReleaseLock, 2, |walk| {
    let (lock, expected) = walk.pick(|known| &known.tokens)?;
    let reason = format!("reason {}", walk.random.random_range(0..2));
    Some(ForceReleaseLock { lock, expected, by: walk.person(), reason })
});

sampled!(ReadLock, 2, |walk| Some(ReadLock { lock: walk.lock() }));

sampled!(
    ListLocks,
    2,
    |walk| {
        let tenant = walk.tenant();
        let page = walk.page(&locks_of(&tenant));
        Some(ListLocks { tenant, page })
    },
    |asked, answer, known| known.learn_page(locks_of(&asked.tenant), answer)
);

sampled!(
    ListLockHistory,
    2,
    |walk| {
        let lock = walk.lock();
        let page = walk.page(&history_of(&lock));
        Some(ListLockHistory { lock, page })
    },
    |asked, answer, known| known.learn_page(history_of(&asked.lock), answer)
);

fn locks_of(tenant: &TenantId) -> String {
    format!("locks of {tenant}")
}

fn history_of(lock: &LockName) -> String {
    format!("history of {lock:?}")
}

impl Walk {
    fn lock(&mut self) -> LockName {
        match self.random.random_range(0..12) {
            0 => LockName::Stage(StageLock::Reconciler),
            1 | 2 => LockName::Stage(StageLock::SnapshotWriter),
            3 => LockName::Of(self.tenant(), name("a/b")),
            4 => LockName::Of(self.tenant(), name("%2F")),
            5..8 => LockName::Admission(self.tenant()),
            _ => LockName::Of(self.tenant(), name("a")),
        }
    }

    fn acquire_lock(&mut self) -> AcquireLock {
        let lock = self.lock();
        let held = self.pick(|known| &known.tokens).filter(|(of, _)| *of == lock && self.flip(0.3));
        let number = self.random.random_range(0..5);
        AcquireLock {
            owner: name(&format!("owner-{number}")),
            mode: if number % 2 == 0 { LockMode::Shared } else { LockMode::Exclusive },
            ttl: self.millis(50..900),
            request: name(&format!("request-{}", self.random.random_range(0..6))),
            call: name(&format!("call-{}", self.known.lock_calls.len())),
            held: held.map(|(_, token)| token),
            stay: self.flip(0.6).then(|| self.millis(50..900)),
            limits: if self.flip(0.5) {
                LockLimits::default()
            } else {
                LockLimits { held_max: 2, waiting_max: 4, line_max: 3 }
            },
            lock,
        }
    }
}
