//! A wall clock that is set does not touch leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_backend::Store;
use interlock_backend::clock::ElapsedClock;
use interlock_backend::locks::Acquired;
use interlock_model::time::millis;
use interlock_model::{Clock, Timestamp};
use interlock_poll::until;

use crate::rows::ask;

/// A wall clock that can be set.
#[derive(Debug)]
struct Wall(AtomicU64);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

async fn is_granted(store: &Store, who: &str) -> bool {
    matches!(
        store.call(ask(who, Duration::from_millis(500), None)).await.unwrap().answer,
        Acquired::Granted(_)
    )
}

const NOON: u64 = 1_794_700_800_000;
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn elapsed_time_neither_goes_back_nor_jumps_with_the_wall_clock() {
    let wall = Arc::new(Wall(AtomicU64::new(NOON)));
    let clock = ElapsedClock::beginning_at(wall.clone());
    let began = clock.now();
    assert!(began >= Timestamp::from_millis(NOON));
    for set_to in [NOON - millis(HOUR), NOON + millis(240 * HOUR)] {
        wall.0.store(set_to, Ordering::SeqCst);
        assert!(clock.now() >= began && clock.now() < began + HOUR);
    }
    assert!(clock.wall_lead() > 239 * 3_600_000);
    wall.0.store(NOON - millis(HOUR), Ordering::SeqCst);
    assert!(clock.wall_lead() <= -3_600_000);
}

#[test]
fn a_clock_continues_after_the_latest_known_time_and_no_earlier() {
    let clock = ElapsedClock::beginning_at(Arc::new(Wall(AtomicU64::new(NOON))));
    let mark = Timestamp::from_millis(NOON) + HOUR;
    clock.catch_up_with(mark);
    assert!(clock.now() >= mark && clock.now() < mark + HOUR);
    clock.catch_up_with(Timestamp::from_millis(NOON));
    assert!(clock.now() < mark + HOUR);
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_it_says_though_the_wall_clock_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let wall = Arc::new(Wall(AtomicU64::new(NOON)));
    let open = || {
        let clock = Arc::new(ElapsedClock::beginning_at(wall.clone()));
        Store::new(Arc::new(interlock_backend_embedded::open(folder.path(), clock).unwrap()))
    };
    let store = open();
    assert!(is_granted(&store, "ann").await);
    wall.0.fetch_add(millis(240 * HOUR), Ordering::SeqCst);
    assert!(!is_granted(&store, "ben").await, "a jump forward ends no lease");
    wall.0.fetch_sub(millis(241 * HOUR), Ordering::SeqCst);
    until("the lease has expired", async || is_granted(&store, "ben").await).await;
    drop(store);

    // A process that begins after the clock was set back continues from what the last one showed.
    let store = open();
    until("the lease has expired", async || is_granted(&store, "cid").await).await;
}
