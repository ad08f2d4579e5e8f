//! A holder stops before another is granted the lock, and learns why.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{AcquireLock, ReadLock, RenewLock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use interlock_backend::faulty::Faults;
use interlock_control::lease::Loss;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::line::Cut;
use crate::scene::{Process, Scene, ask, lock, term};

/// Work that never ends by itself, and notes when it was dropped.
struct Work {
    stopped_at: Arc<Mutex<Option<Instant>>>,
}

impl Drop for Work {
    fn drop(&mut self) {
        *self.stopped_at.lock().unwrap() = Some(Instant::now());
    }
}

impl Work {
    async fn work_on(self, step: Duration) {
        loop {
            sleep(step).await;
        }
    }
}

/// What one black hole did to one holder.
struct Outcome {
    how: Cut,
    /// From when the work was dropped to when the store could have let another in, in parts of the lease.
    margin: f64,
    /// From then to when another got in.
    next_after: Duration,
}

async fn black_hole(seed: u64) -> Outcome {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let scene = Scene::new();
    let (holder, contender) = (scene.process(seed), scene.process(seed + 1_000));
    let ttl = Duration::from_millis(random.random_range(1_000..60_000));
    for action in [AcquireLock::ACTION, RenewLock::ACTION] {
        // The answer may be on its way for longer than the margin: who counts from it is late.
        let (request, answer) = (random.random_range(0..30), random.random_range(0..130));
        holder.wire.slow_down_both(action, ttl * request / 1_000, ttl * answer / 1_000);
    }
    let asked_at = Instant::now();
    let grant = holder.acquire(ask("db", "holder", ttl)).await;
    let next = tokio::spawn(async move {
        contender.acquire(ask("db", "contender", ttl)).await;
        Instant::now()
    });
    let how = if random.random_bool(0.5) { Cut::RequestsVanish } else { Cut::AnswersVanish };
    let when = ttl * random.random_range(0..3_000) / 1_000;
    let stopped_at = Arc::new(Mutex::new(None));
    let work = Work { stopped_at: stopped_at.clone() }.work_on(ttl / random.random_range(3..50));
    let guarded = holder.item_lock(lock("db"), grant.token, term(asked_at, ttl)).guard(work);
    let cut = async {
        sleep(when).await;
        holder.wire.cut(how);
    };
    let (lost, ()) = tokio::join!(guarded, cut);
    assert_eq!(lost, Err(Loss::Deadline), "seed {seed}");
    let stopped_at = stopped_at.lock().unwrap().unwrap();
    let heard =
        holder.wire.done(RenewLock::ACTION).into_iter().chain(holder.wire.done(AcquireLock::ACTION)).max();
    let lease_ends = heard.unwrap() + ttl;
    assert!(stopped_at < lease_ends, "seed {seed}: the work went on for {:?}", stopped_at - lease_ends);
    let next_at = next.await.unwrap();
    assert!(next_at >= lease_ends, "seed {seed}: another got in before the lease ended");
    Outcome {
        how,
        margin: (lease_ends - stopped_at).as_secs_f64() / ttl.as_secs_f64(),
        next_after: next_at - lease_ends,
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_holder_whose_store_falls_silent_stops_before_the_lease_ends_100_times() {
    let mut outcomes = Vec::new();
    for seed in 0..100 {
        outcomes.push(black_hole(seed).await);
    }
    let least = outcomes.iter().map(|outcome| outcome.margin).fold(f64::INFINITY, f64::min);
    let unheard = outcomes.iter().filter(|outcome| outcome.how == Cut::RequestsVanish);
    let most = unheard.map(|outcome| outcome.margin).fold(0.0, f64::max);
    let latest = outcomes.iter().map(|outcome| outcome.next_after).max().unwrap();
    // A tenth of the lease is left, up to the millisecond that a timer may be late, and the time that the last request
    // was on its way. Where only answers vanish, the store still receives renewals that the holder does not rely on.
    assert!(least >= 0.099, "only {least:.4} of a lease was left once");
    assert!(most <= 0.131, "{most:.4} of a lease was given away once");
    assert!(latest <= Duration::from_millis(2), "the lock was free, and the next got it {latest:?} later");
}

/// Holds a lock of ten seconds and works under it for a minute, with the line as `disturb` makes it.
async fn work_for_a_minute(disturb: impl AsyncFn(&Process)) -> (Result<(), Loss>, Duration) {
    let ttl = Duration::from_secs(10);
    let scene = Scene::new();
    let process = scene.process(1);
    let asked_at = Instant::now();
    let grant = process.acquire(ask("db", "holder", ttl)).await;
    let item = process.item_lock(lock("db"), grant.token.clone(), term(asked_at, ttl));
    let work = sleep(Duration::from_mins(1));
    let (done, ()) = tokio::join!(item.guard(work), disturb(&process));
    (done, asked_at.elapsed())
}

#[tokio::test(start_paused = true)]
async fn work_that_takes_longer_than_its_lease_is_renewed_and_the_lock_is_released() {
    let scene = Scene::new();
    let process = scene.process(1);
    let (asked_at, ttl) = (Instant::now(), Duration::from_secs(10));
    let grant = process.acquire(ask("db", "holder", ttl)).await;
    let item = process.item_lock(lock("db"), grant.token, term(asked_at, ttl));
    item.guard(sleep(Duration::from_mins(1))).await.unwrap();
    assert_eq!(scene.holder(&lock("db")).await, None);
    let renewals = process.wire.done(RenewLock::ACTION);
    assert!((16..=20).contains(&renewals.len()), "{} renewals in 18 thirds of the lease", renewals.len());
    let pauses: Vec<_> = renewals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().any(|pause| *pause != pauses[0]), "they are spread");
}

#[tokio::test(start_paused = true)]
async fn l16_replies_that_are_lost_for_a_while_cost_nothing() {
    let (done, _) = work_for_a_minute(async |process| {
        sleep(Duration::from_secs(20)).await;
        process.faulty.set_faults(Faults { replies_lost: 1_000, ..Faults::NONE });
        // Time for two renewals at most.
        sleep(Duration::from_millis(1_600)).await;
        process.faulty.set_faults(Faults::NONE);
    })
    .await;
    assert_eq!(done, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn l16_replies_that_stay_lost_are_no_confirmation() {
    let (done, after) = work_for_a_minute(async |process| {
        process.faulty.set_faults(Faults { replies_lost: 1_000, ..Faults::NONE });
    })
    .await;
    assert_eq!(done, Err(Loss::Failures(3)), "every renewal was done, and none confirmed");
    assert!(after < Duration::from_millis(9_010), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn l21_a_store_that_certainly_fails_is_given_up_on_before_the_lease_ends() {
    let (done, after) = work_for_a_minute(async |process| {
        process.faulty.set_faults(Faults { requests_lost: 1_000, ..Faults::NONE });
    })
    .await;
    assert_eq!(done, Err(Loss::Failures(3)));
    assert!(after < Duration::from_millis(9_010), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lease_was_ended_by_force_stops_at_the_next_renewal() {
    let (done, after) = work_for_a_minute(async |process| {
        sleep(Duration::from_secs(1)).await;
        let token = process
            .control
            .process
            .reader()
            .call(ReadLock { lock: lock("db") })
            .await
            .unwrap()
            .unwrap()
            .view
            .holders[0]
            .token
            .clone();
        let forced = interlock_backend::locks::ForceReleaseLock {
            lock: lock("db"),
            expected: token,
            by: "ops".to_owned(),
            reason: "it hangs".to_owned(),
        };
        process.control.locks.force_release(&forced).await.unwrap();
    })
    .await;
    assert!(matches!(done, Err(Loss::Refused(_))), "{done:?}");
    assert!(after <= Duration::from_millis(3_670), "a third of the lease and a tenth of that: {after:?}");
}

#[tokio::test(start_paused = true)]
async fn l20_a_shutdown_that_takes_its_time_is_cut_off_before_the_lease_ends() {
    let ttl = Duration::from_secs(10);
    let scene = Scene::new();
    let process = scene.process(1);
    let asked_at = Instant::now();
    let grant = process.acquire(ask("db", "holder", ttl)).await;
    let shutdown = CancellationToken::new();
    let work = async {
        shutdown.cancelled().await;
        // Tidying up, for longer than the margin, and longer than the lease.
        sleep(Duration::from_hours(1)).await;
    };
    let item = process.item_lock(lock("db"), grant.token, term(asked_at, ttl));
    let stop = async {
        sleep(Duration::from_secs(8)).await;
        shutdown.cancel();
        process.wire.cut(Cut::RequestsVanish);
    };
    let (lost, ()) = tokio::join!(item.guard(work), stop);
    assert_eq!(lost, Err(Loss::Deadline));
    let heard = process.wire.done(RenewLock::ACTION).into_iter().max().unwrap();
    assert!(heard.elapsed() < ttl, "the work outlived its lease: {:?}", heard.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_the_work_does_not_take_one_step_under_an_expired_lease() {
    let ttl = Duration::from_secs(10);
    let scene = Scene::new();
    let process = scene.process(1);
    let asked_at = Instant::now();
    let grant = process.acquire(ask("db", "holder", ttl)).await;
    let item = process.item_lock(lock("db"), grant.token, term(asked_at, ttl));
    let steps = Mutex::new(0);
    let work = async {
        loop {
            *steps.lock().unwrap() += 1;
            tokio::task::yield_now().await;
        }
    };
    let mut guarded = Box::pin(item.guard::<()>(work));
    assert!(futures_util::poll!(guarded.as_mut()).is_pending());
    // It is not polled, as if the process were stopped.
    sleep(Duration::from_secs(11)).await;
    let before = *steps.lock().unwrap();
    assert_eq!(guarded.await, Err(Loss::Deadline));
    assert_eq!(*steps.lock().unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn l14_a_grant_that_arrives_after_its_lease_is_no_grant() {
    let ttl = Duration::from_secs(2);
    let scene = Scene::new();
    let process = scene.process(1);
    let asked = Faults { delayed: 1_000, delay_max: Duration::from_mins(10), ..Faults::NONE };
    process.faulty.set_faults(asked);
    let never = CancellationToken::new();
    for number in 0..50 {
        let asked_at = Instant::now();
        let answer = process.control.locks.acquire(ask(&format!("db-{number}"), "late", ttl), &never).await;
        if answer.is_ok() {
            assert!(asked_at.elapsed() < ttl, "what is returned as granted had expired");
        }
    }
}
