//! A process that dies between any two steps of a start costs time and nothing else.

use std::sync::Arc;

use interlock_backend::Verb as _;
use interlock_backend::clock::ManualClock;
use interlock_backend::verbs::{ReleaseIdempotencyKey, ReleaseLock};
use interlock_backend::{Backend, memory};
use interlock_model::admission::StartOutcome;
use interlock_model::contention::AdmissionStrategy;
use serde_json::json;

use crate::line::Death;
use crate::scene::{Process, Scene, TTL, now};

/// Six calls with room and six without, before and after each, and two kinds of survivors.
const DEATHS: usize = 48;

/// Starts, until the line dies or everything is done. Whether it died. Whatever the process had in mind dies with it.
fn play_until(process: &Process, death: Death) -> bool {
    process.wire.dies(death);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (control, wire) = (process.control.clone(), process.wire.clone());
    let starting = runtime.spawn(async move {
        let process = Process { control, wire };
        process.start(Some("k"), json!({"n": 1})).await
    });
    let wire = process.wire.clone();
    let died = runtime.block_on(async {
        tokio::select! {
            biased;
            () = wire.died() => true,
            () = is_over(&process.wire, starting) => false,
        }
    });
    drop(runtime);
    died
}

/// The start was answered, and what it left to others is done.
async fn is_over(
    wire: &crate::line::Wire,
    starting: tokio::task::JoinHandle<Result<StartOutcome, interlock_control::admission::StartError>>,
) {
    let refused = matches!(starting.await.unwrap(), Ok(StartOutcome::AtCapacity { .. }));
    loop {
        let is_cleaned = !refused || wire.has_answered(ReleaseIdempotencyKey::ACTION);
        if is_cleaned && wire.has_answered(ReleaseLock::ACTION) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Kills a process at every step of a start, on a store that `open` makes, under a cap with or without room.
async fn die_everywhere(open: impl Fn(Arc<ManualClock>) -> Arc<dyn Backend>) -> usize {
    let mut deaths = 0;
    for cap in [2, 1] {
        for number in 1.. {
            let mut is_over = true;
            for death in [Death::Before(number), Death::After(number)] {
                for survivor in [AdmissionStrategy::Lock, AdmissionStrategy::Atomic] {
                    let clock = Arc::new(ManualClock::starting_at(now()));
                    let mut scene = Scene::on(open(clock.clone()), clock.clone(), cap).await;
                    scene.settings.admission_strategy = AdmissionStrategy::Atomic;
                    let blocking = scene.process(9).started(None).await;
                    scene.settings.admission_strategy = AdmissionStrategy::Lock;
                    let victim = scene.process(1);
                    let died = std::thread::scope(|scope| {
                        scope.spawn(|| play_until(&victim, death)).join().unwrap()
                    });
                    is_over &= !died;
                    deaths += usize::from(died);
                    // The lock of the dead ends by itself; without one there is nothing to wait for.
                    if survivor == AdmissionStrategy::Lock {
                        clock.advance(TTL);
                    }
                    scene.settings.admission_strategy = survivor;
                    scene.settings.admission_tuning.max_wait_ms = 60_000;
                    let context =
                        format!("{death:?} of {:?}, cap {cap}, then {survivor:?}", victim.wire.all());
                    recover(&scene, (cap, blocking), &context).await;
                }
            }
            if is_over {
                break;
            }
        }
    }
    deaths
}

/// The same key starts exactly one run, refused or not before; the cap holds; nothing is left taken.
async fn recover(scene: &Scene, (cap, blocking): (u32, interlock_model::RunId), context: &str) {
    let process = scene.process(2);
    if cap == 1 {
        assert_eq!(scene.active().await, [blocking], "{context}: the cap held");
        let refused = process.start(Some("k"), json!({"n": 1})).await;
        assert!(matches!(refused, Ok(StartOutcome::AtCapacity { .. })), "{context}: {refused:?}");
        scene.end(blocking).await.unwrap();
    }
    let answer = process.start(Some("k"), json!({"n": 1})).await;
    let run = match answer {
        Ok(StartOutcome::Admitted { run, .. }) => run,
        Ok(StartOutcome::Replayed { run, .. }) if cap == 2 => run,
        other => panic!("{context}: {other:?}"),
    };
    let again = process.start(Some("k"), json!({"n": 1})).await;
    assert!(
        matches!(again, Ok(StartOutcome::Replayed { run: same, .. }) if same == run),
        "{context}: {again:?}"
    );
    let expected = if cap == 2 { vec![blocking, run] } else { vec![run] };
    let mut active = scene.active().await;
    active.sort_by_key(|run| expected.iter().position(|known| known == run));
    assert_eq!(active, expected, "{context}");
    let full = process.start(None, json!({})).await;
    assert!(matches!(full, Ok(StartOutcome::AtCapacity { .. })), "{context}: {full:?}");
}

#[tokio::test]
async fn a_process_that_dies_between_any_two_steps_leaves_a_store_that_keeps_every_promise() {
    let deaths = die_everywhere(|clock| Arc::new(memory::store(clock))).await;
    assert_eq!(deaths, DEATHS);
}

#[tokio::test]
async fn the_same_on_the_embedded_store() {
    let folders = tempfile::tempdir().unwrap();
    let next = std::sync::atomic::AtomicU32::new(0);
    let deaths = die_everywhere(|clock| {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = folders.path().join(number.to_string());
        Arc::new(interlock_backend_embedded::open(&folder, clock).unwrap())
    })
    .await;
    assert_eq!(deaths, DEATHS);
}
