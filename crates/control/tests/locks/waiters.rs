//! Waiters are served in the order of their arrival, woken one at a time, and never wait for ever.

use interlock_backend::verbs::ListLockHistory;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use interlock_backend::faulty::Faults;
use interlock_backend::locks::{AcquireLock, Acquired};
use interlock_backend::{Bus as _, PageRequest, Wake};
use interlock_control::locks::UserLockRequest;
use interlock_model::lock::{LockEnd, LockLimits, LockMode};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::scene::{Process, Scene, ask, lock};

const MINUTE: Duration = Duration::from_mins(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Who got the lock, and when.
type Grants = Arc<Mutex<Vec<(usize, Instant)>>>;

/// Waiters that arrive one after the other, hold the lock for `hold`, and release it.
fn queue_up(processes: &[Arc<Process>], waiters: usize, hold: Duration) -> (JoinSet<()>, Grants) {
    let (mut tasks, grants) = (JoinSet::new(), Grants::default());
    for number in 0..waiters {
        let (process, grants) = (processes[number % processes.len()].clone(), grants.clone());
        tasks.spawn(async move {
            sleep(MILLISECOND * u32::try_from(number).unwrap()).await;
            let grant = process.acquire(ask("db", &format!("w-{number}"), MINUTE)).await;
            grants.lock().unwrap().push((number, Instant::now()));
            sleep(hold).await;
            process.control.locks.release(&lock("db"), &grant.token).await.unwrap();
        });
    }
    (tasks, grants)
}

#[tokio::test(start_paused = true)]
async fn waiters_of_three_processes_are_served_as_they_came() {
    let scene = Scene::new();
    let processes: Vec<_> = (1..=3).map(|seed| Arc::new(scene.process(seed))).collect();
    let began = Instant::now();
    let (tasks, grants) = queue_up(&processes, 100, Duration::from_millis(10));
    tasks.join_all().await;
    let order: Vec<_> = grants.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
    // Each lease, and no wait for a poll between them.
    assert!(began.elapsed() <= Duration::from_millis(1_010), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn l7_when_every_wake_up_is_lost_the_queue_advances_at_the_poll() {
    let scene = Scene::where_turns_are_lost();
    let processes: Vec<_> = (1..=3).map(|seed| Arc::new(scene.process(seed))).collect();
    let (tasks, grants) = queue_up(&processes, 20, Duration::from_secs(5));
    tasks.join_all().await;
    let grants = grants.lock().unwrap().clone();
    let order: Vec<_> = grants.iter().map(|(number, _)| *number).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    for pair in grants.windows(2) {
        let (free_at, got_at) = (pair[0].1 + Duration::from_secs(5), pair[1].1);
        let waited = got_at - free_at;
        assert!(waited <= scene.settings.lock_poll + MILLISECOND, "{} waited {waited:?}", pair[1].0);
    }
}

#[tokio::test(start_paused = true)]
async fn l7_holds_shorter_than_the_poll_cost_at_most_the_poll_of_those_further_back() {
    let scene = Scene::where_turns_are_lost();
    let process = Arc::new(scene.process(1));
    let (tasks, grants) = queue_up(&[process], 20, MILLISECOND);
    tasks.join_all().await;
    let grants = grants.lock().unwrap().clone();
    for pair in grants.windows(2) {
        let waited = pair[1].1 - pair[0].1;
        assert!(
            waited <= scene.settings.lock_silence / 3 + MILLISECOND * 3,
            "{} waited {waited:?}",
            pair[1].0
        );
    }
}

/// A waiter that was queued once, and never polled again.
async fn dead_waiter(scene: &Scene) {
    let asked = AcquireLock {
        lock: lock("db"),
        owner: "gone".parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl: MINUTE,
        request: "gone".parse().unwrap(),
        call: "t-gone".parse().unwrap(),
        held: None,
        stay: Some(scene.settings.lock_silence),
        limits: LockLimits::default(),
    };
    assert!(matches!(scene.store.call(asked.clone()).await.unwrap().answer, Acquired::Waiting(_)));
}

#[tokio::test(start_paused = true)]
async fn l6_a_dead_waiter_does_not_block_the_queue_for_longer_than_its_silence_and_a_poll() {
    for is_heard in [true, false] {
        let scene = if is_heard { Scene::new() } else { Scene::where_turns_are_lost() };
        let process = scene.process(1);
        let holder = process.acquire(ask("db", "holder", MINUTE)).await;
        dead_waiter(&scene).await;
        let gone_at = Instant::now();
        let release = async {
            sleep(MILLISECOND).await;
            process.control.locks.release(&lock("db"), &holder.token).await.unwrap();
        };
        let (_, ()) = tokio::join!(process.acquire(ask("db", "alive", MINUTE)), release);
        let (waited, settings) = (gone_at.elapsed(), &scene.settings);
        assert!(waited <= settings.lock_silence + settings.lock_poll, "{waited:?}");
        assert!(waited >= settings.lock_silence, "no waiter is skipped while it may be alive");
    }
}

#[tokio::test(start_paused = true)]
async fn l6_a_call_that_vanishes_with_its_process_is_passed_over() {
    let scene = Scene::new();
    let (process, dying) = (scene.process(1), scene.process(2));
    let holder = process.acquire(ask("db", "holder", MINUTE)).await;
    let never = CancellationToken::new();
    let mut lost = Box::pin(dying.control.locks.acquire(ask("db", "lost", MINUTE), &never));
    assert!(futures_util::poll!(lost.as_mut()).is_pending());
    // Killed: nothing of it is ever run again, not even its end.
    std::mem::forget(lost);
    let began = Instant::now();
    process.control.locks.release(&lock("db"), &holder.token).await.unwrap();
    process.acquire(ask("db", "alive", MINUTE)).await;
    let bound = scene.settings.lock_silence + scene.settings.lock_poll;
    assert!(began.elapsed() <= bound, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn l1_a_waiter_that_counted_as_dead_does_not_get_a_lock_that_another_holds() {
    let scene = Scene::new();
    let (process, paused) = (scene.process(1), scene.process(2));
    let holder = process.acquire(ask("db", "holder", MINUTE)).await;
    let never = CancellationToken::new();
    let mut stopped = Box::pin(paused.control.locks.acquire(ask("db", "stopped", MINUTE), &never));
    assert!(futures_util::poll!(stopped.as_mut()).is_pending());
    // It is not polled for longer than its silence; meanwhile the queue advances without it.
    sleep(scene.settings.lock_silence + MILLISECOND).await;
    process.control.locks.release(&lock("db"), &holder.token).await.unwrap();
    let other = process.acquire(ask("db", "other", MINUTE)).await;
    let woken_at = Instant::now();
    let Acquired::Granted(late) = stopped.await.unwrap() else { panic!("it waits for long enough") };
    assert!(woken_at.elapsed() >= MINUTE, "it got the lock while another held it");
    assert!(late.fence > other.fence);
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_first_in_the_queue_and_no_other() {
    let scene = Scene::new();
    let process = Arc::new(scene.process(1));
    let holder = process.acquire(ask("db", "holder", MINUTE)).await;
    let (tasks, grants) = queue_up(std::slice::from_ref(&process), 5, MINUTE * 2);
    sleep(Duration::from_millis(10)).await;
    let mut heard = scene.bus.subscribe();
    process.control.locks.release(&lock("db"), &holder.token).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    let turns =
        std::iter::from_fn(|| heard.try_recv().ok()).filter(|wake| matches!(wake, Wake::LockTurn { .. }));
    assert_eq!(turns.count(), 1);
    assert_eq!(grants.lock().unwrap().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
    drop(tasks);
}

#[tokio::test(start_paused = true)]
async fn those_who_share_get_in_one_after_the_other_at_once_up_to_the_first_who_does_not() {
    let scene = Scene::new();
    let process = Arc::new(scene.process(1));
    let holder = process.acquire(ask("db", "holder", MINUTE)).await;
    let in_at = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for (number, mode) in
        [LockMode::Shared, LockMode::Shared, LockMode::Shared, LockMode::Exclusive].iter().enumerate()
    {
        let asked = UserLockRequest { mode: *mode, ..ask("db", &format!("w-{number}"), MINUTE) };
        let (process, in_at) = (process.clone(), in_at.clone());
        tasks.spawn(async move {
            sleep(MILLISECOND * u32::try_from(number).unwrap()).await;
            let grant = process.acquire(asked).await;
            in_at.lock().unwrap().push((number, Instant::now()));
            sleep(Duration::from_secs(20)).await;
            process.control.locks.release(&lock("db"), &grant.token).await.unwrap();
        });
    }
    sleep(Duration::from_millis(10)).await;
    let released_at = Instant::now();
    process.control.locks.release(&lock("db"), &holder.token).await.unwrap();
    tasks.join_all().await;
    let in_at: Vec<_> =
        in_at.lock().unwrap().iter().map(|(number, at)| (*number, *at - released_at)).collect();
    let seconds = |number| Duration::from_secs(number);
    assert_eq!(in_at, [(0, seconds(0)), (1, seconds(0)), (2, seconds(0)), (3, seconds(20))]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_lock_goes_to_the_first_in_the_queue_at_once_without_a_wake_up() {
    let scene = Scene::where_turns_are_lost();
    let (process, dead) = (scene.process(1), scene.process(2));
    let _ = dead.acquire(ask("db", "dead", Duration::from_millis(4_321))).await;
    let began = Instant::now();
    let _ = process.acquire(ask("db", "next", MINUTE)).await;
    let (waited, lease) = (began.elapsed(), Duration::from_millis(4_321));
    assert!(waited >= lease && waited <= lease + MILLISECOND * 2, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn l15_a_grant_whose_answer_was_lost_is_released_long_before_its_lease_ends() {
    let scene = Scene::new();
    let process = scene.process(1);
    let slow = Faults { delayed: 1_000, delay_max: Duration::from_millis(100), ..Faults::NONE };
    process.faulty.set_faults(slow);
    let never = CancellationToken::new();
    let mut unheard = Box::pin(process.control.locks.acquire(ask("db", "hasty", MINUTE * 60), &never));
    while scene.holder(&lock("db")).await.is_none() {
        assert!(futures_util::poll!(unheard.as_mut()).is_pending(), "its answer is still on its way");
        sleep(MILLISECOND).await;
    }
    drop(unheard);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(scene.holder(&lock("db")).await, None);
    let page = PageRequest { limit: 1, after: None };
    let last = scene
        .store
        .call(ListLockHistory { lock: lock("db"), page: page.clone() })
        .await
        .unwrap()
        .items
        .remove(0);
    assert_eq!(last.end, Some(LockEnd::Withdrawn));
}
