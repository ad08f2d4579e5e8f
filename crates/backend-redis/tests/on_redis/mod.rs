//! A Redis store on a clock that the test moves, under a prefix of its own: tests share a server and do not meet.

#[expect(clippy::wildcard_enum_match_arm, reason = "each part plants its own faults")]
mod planting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::Store;
use interlock_backend::clock::ManualClock;
use interlock_backend::conformance::inspection::{Fixture, Plant, Planted};
use interlock_backend::conformance::{Subject, versus_memory};
use interlock_backend_redis::RedisStore;
use interlock_backend_redis::connect::{ConnectSettings, Connection};
use interlock_model::Timestamp;
use interlock_model::doctor::Invariant;
use planting::Soil;

pub(crate) struct OnRedis {
    settings: ConnectSettings,
    clock: Arc<ManualClock>,
    store: Option<Store>,
}

impl OnRedis {
    pub(crate) async fn at(url: &str) -> Self {
        static PREFIXES: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("t{}", PREFIXES.fetch_add(1, Ordering::Relaxed));
        let settings =
            ConnectSettings { prefix, ..ConnectSettings::new(url.parse().expect("servers have addresses")) };
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
        let store = open(settings.clone(), clock.clone()).await;
        Self { settings, clock, store: Some(store) }
    }
}

async fn open(settings: ConnectSettings, clock: Arc<ManualClock>) -> Store {
    let connection = Connection::open(settings).await.expect("the server is up");
    let instance = "instance-1".parse().expect("the name is valid");
    Store::new(Arc::new(RedisStore::on_clock(connection, instance, clock).await.expect("the server is up")))
}

#[async_trait]
impl Subject for OnRedis {
    fn store(&self) -> Store {
        self.store.clone().expect("the store is open between two reopenings")
    }

    async fn elapse(&self, time: Duration) {
        self.clock.advance(time);
    }

    async fn reopen(&mut self) {
        self.store = None;
        self.store = Some(open(self.settings.clone(), self.clock.clone()).await);
    }
}

#[async_trait]
impl Plant for OnRedis {
    async fn plant(&mut self, fault: Invariant, fixture: &Fixture) -> Planted {
        let connection = Connection::open(self.settings.clone()).await.expect("the server is up");
        Soil { connection, tag: format!("{{{}}}", fixture.tenant) }.plant(fault, fixture).await
    }
}

/// Makes random calls, and again with each other seed.
pub(crate) async fn answers_like_the_reference(url: &str, seeds: std::ops::Range<u64>, calls: usize) {
    for seed in seeds {
        let mut subject = OnRedis::at(url).await;
        let clock = subject.clock.clone();
        versus_memory::every_answer_equals_the_references(&mut subject, clock, seed, calls).await;
    }
}
