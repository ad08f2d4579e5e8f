//! What is counted, swept and forgotten of locks is as in the reference.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::ManualClock;
use interlock_backend::locks::{Acquire, ForcedRelease};
use interlock_backend::{PageRequest, Store, memory};
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
    reference: Arc<dyn Store>,
    subject: Arc<dyn Store>,
    asked: Vec<(LockName, LockRequest, LockToken)>,
}

/// Asks both stores the same and compares the answers.
macro_rules! same {
    ($walk:ident, $verb:ident($($argument:expr),*)) => {{
        let expected = $walk.reference.$verb($($argument),*).await;
        let found = $walk.subject.$verb($($argument),*).await;
        assert_eq!(expected, found, concat!(stringify!($verb), "{:?}"), ($(&$argument,)*));
        expected
    }};
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
            reference: Arc::new(memory::store(clock.clone())),
            subject: Arc::new(subject),
            clock,
            asked: Vec::new(),
        }
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
        let asked = Acquire {
            owner: name(&format!("o \"{}\" \\/ ü", number % 6)),
            mode: if number % 2 == 0 { LockMode::Shared } else { LockMode::Exclusive },
            ttl: self.moment(),
            request: name(&format!("r{number}")),
            call: name(&format!("c{step}")),
            stay: Some(self.moment()).filter(|_| self.random.random_bool(0.7)),
            limits: LIMITS,
            ..ask(&lock, "somebody")
        };
        self.asked.push((lock, asked.request.clone(), asked.call.clone()));
        let _ = same!(self, acquire(&asked));
    }

    async fn say_something_about_a_hold(&mut self) {
        let recent = self.asked.len().saturating_sub(8)..self.asked.len();
        if recent.is_empty() {
            return;
        }
        let (lock, request, token) = self.asked[self.random.random_range(recent)].clone();
        match self.random.random_range(0..4) {
            0 => drop(same!(self, renew(&lock, &token, Duration::from_millis(200)))),
            1 => drop(same!(self, withdraw(&lock, &request, &token))),
            2 => drop(same!(self, release(&lock, &token))),
            _ => {
                let (by, reason) = ("a\nb".to_owned(), "c / d ü \"".to_owned());
                let forced = ForcedRelease { lock, expected: token, by, reason };
                let _ = same!(self, force_release(&forced));
            }
        }
    }

    async fn look(&mut self) {
        let lock = self.lock();
        let mut page = PageRequest { limit: self.random.random_range(0..4), after: None };
        let _ = same!(self, locks(&acme(), &page));
        let _ = same!(self, lock(&lock));
        while let Some(after) = same!(self, lock_history(&lock, &page)).unwrap().next {
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
        let asked = Acquire { call: call.clone(), request: name(&format!("r{number}")), ..ask(&lock, "ann") };
        let _ = same!(walk, acquire(&asked));
        walk.clock.advance(Duration::from_millis(1));
        if number + 1 < holds {
            let _ = same!(walk, release(&lock, &call));
        }
    }
    let mut page = PageRequest { limit: 500, after: None };
    let mut events = 0;
    loop {
        let found = same!(walk, lock_history(&lock, &page)).unwrap();
        events += found.items.len();
        page.after = found.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(events, HISTORY_MAX);
    // Nobody knows any more that the first were released.
    for number in 0..15 {
        let token: LockToken = name(&format!("c{number}"));
        let _ = same!(walk, release(&lock, &token));
    }
}
