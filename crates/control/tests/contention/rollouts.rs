//! Roll-outs: counted everywhere, judged once, and written down.

use interlock_backend::verbs::ReadFigures;
use std::time::Duration;

use interlock_control::Settings;
use interlock_control::contention::Tally;
use interlock_control::rollouts::{StartRollout, TuningError};
use interlock_model::RolloutId;
use interlock_model::contention::RolloutEventKind::{Aborted, Promoted};
use interlock_model::contention::{
    Arm, BookError, Guards, Rollout, RolloutEventKind, RolloutState, RunStrategy, Scope, Share,
};
use tokio::time::Instant;

use crate::scene::{Process, Scene, fixed, run};

const LASTING: Duration = Duration::from_mins(2);

fn start(delay_ms: u64) -> StartRollout {
    StartRollout {
        candidate: fixed(delay_ms),
        share: Share::of_percent(50.0).unwrap(),
        duration: LASTING,
        guards: Guards::default(),
    }
}

async fn begin(process: &Process, delay_ms: u64) -> RolloutId {
    process.control.rollouts.start_rollout(start(delay_ms), "ada", None).await.unwrap().rollout.id
}

/// Results as the stages count them: each finds its run busy `busy` times, and then reaches it. Returns when all have.
async fn results(process: &Process, arm: Arm, count: u32, (busy, delay_ms): (u32, u64)) {
    let (tally, delay) = (&process.control.contention.tally, Duration::from_millis(delay_ms));
    for attempt in 1..=busy {
        (0..count).for_each(|_| tally.busy(arm, (attempt, delay * (attempt - 1)), delay));
        tokio::time::sleep(delay).await;
    }
    let waited = delay * busy;
    (0..count).for_each(|_| tally.settled(arm, (busy + 1, waited), waited + Duration::from_millis(3)));
}

/// The roll-out, once it has ended.
async fn ended(process: &Process, id: &RolloutId, limit: Duration) -> Rollout {
    let until = Instant::now() + limit;
    loop {
        let rollout = process.control.rollouts.book().await.unwrap().rollout(id).unwrap().clone();
        if !rollout.is_running() {
            return rollout;
        }
        assert!(Instant::now() < until, "it still runs: {rollout:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn why(rollout: &Rollout) -> &str {
    rollout.history.last().and_then(|event| event.why.as_deref()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn runs_are_split_the_same_way_on_every_replica() {
    let scene = Scene::new();
    let (one, other) = (scene.process("i-1"), scene.process("i-22"));
    begin(&one, 5_000).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut tried, mut kept) = (0, 0);
    for number in 0..200 {
        let (arm, tuning) = one.control.contention.lock_busy(run(number));
        assert_eq!((arm, tuning), other.control.contention.lock_busy(run(number)));
        match arm {
            Arm::Control => kept += u32::from(tuning.policy == fixed(500)),
            Arm::Candidate => tried += u32::from(tuning.policy == fixed(5_000)),
        }
    }
    assert_eq!(tried + kept, 200);
    assert!((70..130).contains(&tried), "{tried} of 200");
}

#[tokio::test(start_paused = true)]
async fn a_harmful_candidate_is_rolled_back_within_seconds_and_says_why() {
    let scene = Scene::new();
    let (one, other) = (scene.process("i-1"), scene.process("i-22"));
    let id = begin(&one, 5_000).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // No process has seen enough by itself.
    for process in [&one, &other] {
        results(process, Arm::Control, 100, (1, 500)).await;
        results(process, Arm::Candidate, 30, (1, 5_000)).await;
    }
    let rollout = ended(&one, &id, Duration::from_secs(5)).await;
    assert_eq!(rollout.state, RolloutState::RolledBack);
    assert!(why(&rollout).contains("more than 2 times"), "{}", why(&rollout));
    assert_eq!(rollout.history.last().unwrap().by, "interlock");
    assert_eq!(rollout.history.iter().filter(|event| event.kind == RolloutEventKind::RolledBack).count(), 1);
    let measured = rollout.measured.unwrap();
    let candidates = measured.candidate.results + measured.candidate.outstanding();
    assert_eq!((measured.control.results, candidates), (200, 60));
    tokio::time::sleep(Duration::from_secs(1)).await;
    for process in [&one, &other] {
        assert_eq!(process.control.contention.in_force().rollout, None);
        assert_eq!(process.policy(Scope::LockBusy), fixed(500));
        assert_eq!(process.control.contention.lock_busy(run(1)).0, Arm::Control);
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_candidate_is_promoted_at_its_end_and_not_before() {
    let scene = Scene::new();
    let (one, other) = (scene.process("i-1"), scene.process("i-22"));
    let id = begin(&one, 100).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    results(&one, Arm::Control, 100, (2, 500)).await;
    results(&other, Arm::Candidate, 100, (1, 100)).await;
    tokio::time::sleep(LASTING * 9 / 10).await;
    assert!(one.control.rollouts.book().await.unwrap().rollout(&id).unwrap().is_running());
    let rollout = ended(&one, &id, Duration::from_secs(20)).await;
    assert_eq!(rollout.state, RolloutState::Promoted, "{}", why(&rollout));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((one.policy(Scope::LockBusy), other.policy(Scope::LockBusy)), (fixed(100), fixed(100)));
    let restored = one.control.rollouts.roll_back_tuning(Scope::LockBusy, None, "ada", None).await.unwrap();
    assert_eq!(restored.tuning.policy, fixed(500), "and can be taken back like any change");
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_is_no_better_or_was_hardly_tried_goes() {
    for (count, busy, word) in
        [(100, 2, "neither retries nor result latency improved"), (10, 1, "too few samples")]
    {
        let scene = Scene::new();
        let process = scene.process("i-1");
        let id = begin(&process, 501).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        results(&process, Arm::Control, 100, (2, 500)).await;
        results(&process, Arm::Candidate, count, (busy, 500)).await;
        let rollout = ended(&process, &id, LASTING + Duration::from_secs(10)).await;
        assert_eq!(rollout.state, RolloutState::RolledBack);
        assert!(why(&rollout).contains(word), "{}", why(&rollout));
        assert_eq!(process.policy(Scope::LockBusy), fixed(500));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_process_has_counted_survives_it_and_is_not_counted_twice() {
    let scene = Scene::new();
    let one = scene.process("i-1");
    let id = begin(&one, 100).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    results(&one, Arm::Control, 7, (1, 500)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop(one);
    let next = scene.process("i-22");
    tokio::time::sleep(Duration::from_secs(2)).await;
    results(&next, Arm::Control, 2, (0, 500)).await;
    results(&next, Arm::Candidate, 3, (0, 500)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seen = next.control.rollouts.rollout(&id).await.unwrap();
    assert_eq!((seen.control.results, seen.control.retries, seen.candidate.results), (9, 7, 3));
    assert!(seen.verdict.starts_with("too few samples"), "{}", seen.verdict);
    let counted = next.control.contention.tally.counted();
    assert_eq!((counted.control.results, counted.candidate.results), (2, 3), "its own, since it began");
}

#[tokio::test(start_paused = true)]
async fn what_was_counted_before_a_roll_out_or_for_another_is_not_counted_for_it() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    results(&process, Arm::Control, 40, (1, 500)).await;
    let first = begin(&process, 100).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    results(&process, Arm::Control, 5, (1, 500)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    process.control.rollouts.end_rollout(&first, Aborted, "ada", Some("enough".to_owned())).await.unwrap();
    let second = begin(&process, 200).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    results(&process, Arm::Control, 3, (1, 500)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let results = async |id: &RolloutId| process.control.rollouts.rollout(id).await.unwrap().control.results;
    assert_eq!((results(&first).await, results(&second).await), (5, 3));
    assert!(
        scene.store.call(ReadFigures { rollout: first.clone() }).await.unwrap().is_empty(),
        "old rows go when the next one begins"
    );
    assert_eq!(scene.store.call(ReadFigures { rollout: second.clone() }).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn people_may_end_it_and_only_once() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    let id = begin(&process, 100).await;
    let second = process.control.rollouts.start_rollout(start(200), "bob", None).await.unwrap_err();
    assert!(matches!(second, TuningError::Book(BookError::Conflict(_))), "{second}");
    let promoted = process
        .control
        .rollouts
        .end_rollout(&id, Promoted, "ada", Some("it is fine".to_owned()))
        .await
        .unwrap();
    assert_eq!((promoted.rollout.state, promoted.verdict.as_str()), (RolloutState::Promoted, "it is fine"));
    assert_eq!(process.policy(Scope::LockBusy), fixed(100));
    let again = process.control.rollouts.end_rollout(&id, Aborted, "ada", None).await.unwrap_err();
    assert!(matches!(again, TuningError::Book(BookError::Conflict(_))), "{again}");
    let unknown = process
        .control
        .rollouts
        .end_rollout(&"ro-none".parse().unwrap(), Aborted, "ada", None)
        .await
        .unwrap_err();
    assert!(matches!(unknown, TuningError::Book(BookError::UnknownRollout(_))), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn under_the_inbox_strategy_it_says_that_there_is_nothing_to_measure() {
    let scene = Scene::new();
    let inbox = scene.process("i-1");
    let begun = inbox.control.rollouts.start_rollout(start(100), "ada", None).await.unwrap();
    assert!(begun.note.unwrap().contains("inbox"));
    let lock = Settings { run_strategy: RunStrategy::Lock, ..Settings::default() };
    let locked = scene.process_with("i-22", scene.bus.clone(), lock);
    assert_eq!(locked.control.rollouts.rollout(&begun.rollout.id).await.unwrap().note, None);
}

#[tokio::test(start_paused = true)]
async fn what_came_before_a_roll_out_began_says_nothing_about_its_arms() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    begin(&process, 100).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tally = &process.control.contention.tally;
    let ended_after = |tally: &Tally, seconds| {
        let waited = Duration::from_secs(seconds);
        tally.settled(Arm::Candidate, (2, waited), waited);
    };
    ended_after(tally, 11);
    ended_after(tally, 9);
    tally.busy(Arm::Control, (7, Duration::from_secs(11)), Duration::from_millis(500));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let late = scene.process("i-22");
    late.control.rollouts.load_tunings().await.unwrap();
    ended_after(&late.control.contention.tally, 12);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let book = process.control.rollouts.book().await.unwrap();
    let detail = process.control.rollouts.with_figures(book.running().unwrap().clone()).await.unwrap();
    assert_eq!((detail.candidate.results, detail.control.retries), (2, 0), "of the 9 s and of the 12 s");
    assert_eq!(tally.counted().of(Arm::Candidate).results, 2, "all are counted of the process");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_is_ended_counts_what_its_process_has_not_saved_yet() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    let id = begin(&process, 5_000).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    results(&process, Arm::Candidate, 7, (1, 500)).await;
    let ended = process.control.rollouts.end_rollout(&id, Aborted, "ada", None).await.unwrap();
    assert_eq!(ended.rollout.measured.unwrap().candidate.results, 7);
}
