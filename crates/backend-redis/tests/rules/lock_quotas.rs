//! What is counted, swept and forgotten of locks is as in the reference.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::ManualClock;
use interlock_backend::verbs::{
    AcquireLock, ForceReleaseLock, ListLockHistory, ListLocks, ReadLock, ReleaseLock, RenewLock, WithdrawLock,
};
use interlock_backend::{PageRequest, Store, StoreError, Verb, memory};
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_model::lock::{HISTORY_MAX, LockLimits, LockMode, LockName};
use interlock_model::{LockRequest, LockToken, Timestamp};
use interlock_servers::Redis;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::asking::ask;
use super::{acme, name, server};

const LIMITS: LockLimits = LockLimits { held_max: 3, waiting_max: 4, line_max: 3 };

struct Walk {
    random: ChaCha8Rng,
    clock: Arc<ManualClock>,
    reference: Store,
    subject: Store,
    asked: Vec<(LockName, LockRequest, LockToken)>,
}

impl Walk {
    async fn new(server: &Redis, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let settings = ConnectSettings::new(server.url().parse().unwrap());
        let settings = ConnectSettings { prefix: format!("q{seed}"), ..settings };
        let connection = Connection::open(settings).await.unwrap();
        let subject = RedisStore::on_clock(connection, name("instance-1"), clock.clone()).await.unwrap();
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            reference: Store::new(Arc::new(memory::store(clock.clone()))),
            subject: Store::new(Arc::new(subject)),
            clock,
            asked: Vec::new(),
        }
    }

    /// Calls both stores and compares the answers.
    async fn call<V: Verb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        let expected = self.reference.call(verb.clone()).await;
        let found = self.subject.call(verb.clone()).await;
        assert_eq!(expected, found, "{verb:?}");
        expected
    }

    fn lock(&mut self) -> LockName {
        LockName::Of(acme(), name(&format!("r/{}%", self.random.random_range(0..5))))
    }

    fn moment(&mut self) -> Duration {
        Duration::from_millis(self.random.random_range(1..500))
    }

    async fn step(&mut self, step: usize) {
        match self.random.random_range(0..100) {
            0..50 => self.acquire(step).await,
            50..75 => self.say_something_about_a_hold().await,
            75..83 => self.look().await,
            83 => self.clock.advance(Duration::from_hours(self.random.random_range(1..8 * 24))),
            _ => {
                let moment = self.moment();
                self.clock.advance(moment);
            }
        }
    }

    async fn acquire(&mut self, step: usize) {
        let (lock, number) = (self.lock(), self.random.random_range(0..12));
        let asked = AcquireLock {
            owner: name(&format!("o \"{}\" \\/ ü", number % 6)),
            mode: if number % 2 == 0 { LockMode::Shared } else { LockMode::Exclusive },
            ttl: self.moment(),
            request: name(&format!("r{number}")),
            call: name(&format!("c{step}")),
            stay: Some(self.moment()).filter(|_| self.random.random_bool(0.7)),
            limits: LIMITS,
            ..ask(&lock, "ann")
        };
        self.asked.push((lock, asked.request.clone(), asked.call.clone()));
        let _ = self.call(asked).await;
    }

    async fn say_something_about_a_hold(&mut self) {
        let recent = self.asked.len().saturating_sub(8)..self.asked.len();
        if recent.is_empty() {
            return;
        }
        let (lock, request, token) = self.asked[self.random.random_range(recent)].clone();
        match self.random.random_range(0..4) {
            0 => drop(self.call(RenewLock { lock, token, ttl: Duration::from_millis(200) }).await),
            1 => drop(self.call(WithdrawLock { lock, request, call: token }).await),
            2 => drop(self.call(ReleaseLock { lock, token }).await),
            _ => {
                let (by, reason) = ("a\nb".to_owned(), "c / d ü \"".to_owned());
                let _ = self.call(ForceReleaseLock { lock, expected: token, by, reason }).await;
            }
        }
    }

    async fn look(&mut self) {
        let lock = self.lock();
        let mut page = PageRequest { limit: self.random.random_range(0..4), after: None };
        let _ = self.call(ListLocks { tenant: acme(), page: page.clone() }).await;
        let _ = self.call(ReadLock { lock: lock.clone() }).await;
        let history = |page: &PageRequest| ListLockHistory { lock: lock.clone(), page: page.clone() };
        while let Some(after) = self.call(history(&page)).await.unwrap().next {
            page.after = Some(after);
        }
    }
}

#[tokio::test]
async fn tight_limits_are_kept_as_in_the_reference_also_over_days() {
    let server = server().await;
    for seed in 0..8 {
        let mut walk = Walk::new(&server, seed).await;
        for step in 0..400 {
            walk.step(step).await;
        }
    }
}

#[tokio::test]
async fn a_long_history_forgets_its_oldest_as_in_the_reference() {
    let server = server().await;
    let mut walk = Walk::new(&server, 0).await;
    let lock = walk.lock();
    // Each hold is two events; the last one is not over.
    let holds = HISTORY_MAX / 2 + 10;
    for number in 0..holds {
        let call: LockToken = name(&format!("c{number}"));
        let asked =
            AcquireLock { call: call.clone(), request: name(&format!("r{number}")), ..ask(&lock, "ann") };
        let _ = walk.call(asked).await;
        walk.clock.advance(Duration::from_millis(1));
        if number + 1 < holds {
            let _ = walk.call(ReleaseLock { lock: lock.clone(), token: call }).await;
        }
    }
    let mut page = PageRequest { limit: 500, after: None };
    let mut events = 0;
    loop {
        let found = walk.call(ListLockHistory { lock: lock.clone(), page: page.clone() }).await.unwrap();
        events += found.items.len();
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(events, HISTORY_MAX);
    // The store has forgotten that the first were released.
    for number in 0..15 {
        let token: LockToken = name(&format!("c{number}"));
        let _ = walk.call(ReleaseLock { lock: lock.clone(), token }).await;
    }
}
