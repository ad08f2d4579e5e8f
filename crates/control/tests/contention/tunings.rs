//! A change is in force everywhere within a second, and is written down.

use interlock_backend::verbs::{ReadDocument, SaveDocument};
use std::time::Duration;

use interlock_backend::documents::DocumentName;
use interlock_control::Settings;
use interlock_control::rollouts::{TuningChange, TuningError};
use interlock_model::contention::{BookError, Scope};
use tokio::time::Instant;

use crate::scene::{Process, SOON, Scene, fixed};

fn change(delay_ms: u64) -> TuningChange {
    TuningChange {
        scope: Scope::LockBusy,
        policy: fixed(delay_ms),
        max_wait_ms: None,
        lock_ttl_ms: None,
        expected: None,
    }
}

async fn set(process: &Process, delay_ms: u64) {
    process.control.rollouts.set_tuning(change(delay_ms), "ada", None).await.unwrap();
}

async fn roll_back(process: &Process) -> Result<u64, TuningError> {
    let restored = process.control.rollouts.roll_back_tuning(Scope::LockBusy, None, "bob", None).await?;
    Ok(restored.version.unwrap().number)
}

#[tokio::test(start_paused = true)]
async fn a_change_and_its_roll_back_hold_on_another_replica_at_once_if_the_bus_says_so() {
    let scene = Scene::new();
    let patient = Settings { tuning_poll: Duration::from_hours(1), ..Settings::default() };
    let one = scene.process("i-1");
    let other = scene.process_with("i-2", scene.bus.clone(), patient);
    tokio::time::sleep(SOON).await;
    set(&one, 700).await;
    assert_eq!(one.policy(Scope::LockBusy), fixed(700), "here with the answer");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(other.policy(Scope::LockBusy), fixed(700));
    roll_back(&other).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(one.policy(Scope::LockBusy), fixed(500));
}

#[tokio::test(start_paused = true)]
async fn without_a_bus_a_change_holds_on_another_replica_within_a_second() {
    let scene = Scene::new();
    let (one, other) = (scene.deaf_process("i-1"), scene.deaf_process("i-2"));
    tokio::time::sleep(SOON).await;
    for (delay, is_back) in [(700, false), (900, false), (700, true), (500, true)] {
        if is_back {
            roll_back(&one).await.unwrap();
        } else {
            set(&one, delay).await;
        }
        let began = Instant::now();
        while other.policy(Scope::LockBusy) != fixed(delay) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(began.elapsed() <= SOON, "{delay} ms is not in force after a second");
        }
    }
    assert_eq!(one.policy(Scope::Admission), fixed(10), "the other scope stays as it is");
}

#[tokio::test(start_paused = true)]
async fn a_process_begins_with_what_the_store_says() {
    let scene = Scene::new();
    set(&scene.process("i-1"), 700).await;
    let late = scene.process("i-2");
    late.control.rollouts.load_tunings().await.unwrap();
    assert_eq!(late.policy(Scope::LockBusy), fixed(700));
}

#[tokio::test(start_paused = true)]
async fn changes_at_once_are_all_written_down_with_who_and_when() {
    let scene = Scene::new();
    let (one, other) = (scene.process("i-1"), scene.process("i-2"));
    let changes = (1..=10).map(|number| {
        let control = if number % 2 == 0 { one.control.clone() } else { other.control.clone() };
        tokio::spawn(async move {
            control
                .rollouts
                .set_tuning(change(number), &format!("person {number}"), Some("a try".to_owned()))
                .await
        })
    });
    for changed in changes.collect::<Vec<_>>() {
        changed.await.unwrap().unwrap();
    }
    let book = one.control.rollouts.book().await.unwrap();
    let versions: Vec<_> = book.versions(Scope::LockBusy).newest_first().collect();
    assert_eq!(
        versions.iter().map(|version| version.number).collect::<Vec<_>>(),
        (1..=10).rev().collect::<Vec<_>>()
    );
    assert!(versions.iter().all(|version| version.by.starts_with("person ")));
    assert!(versions.iter().all(|version| version.at.as_millis() >= 1_794_700_800_000));
    let who: std::collections::BTreeSet<_> = versions.iter().map(|version| &version.by).collect();
    assert_eq!(who.len(), 10, "no change was overwritten");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_version_that_is_not_in_force_any_more_is_refused() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    set(&process, 700).await;
    let stale = TuningChange { expected: Some(0), ..change(900) };
    let refused = process.control.rollouts.set_tuning(stale, "bob", None).await.unwrap_err();
    assert!(matches!(refused, TuningError::Book(BookError::Conflict(_))), "{refused}");
    assert_eq!(process.policy(Scope::LockBusy), fixed(700));
}

#[tokio::test(start_paused = true)]
async fn a_document_that_cannot_be_read_changes_nothing_and_is_not_overwritten() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    set(&process, 700).await;
    assert!(
        scene
            .store
            .call(SaveDocument { name: DocumentName::Contention, expected: 1, text: "no book".to_owned() })
            .await
            .unwrap()
    );
    tokio::time::sleep(SOON).await;
    assert_eq!(process.policy(Scope::LockBusy), fixed(700), "the last known one holds");
    let refused = process.control.rollouts.set_tuning(change(900), "ada", None).await.unwrap_err();
    assert!(matches!(refused, TuningError::Store(_)), "{refused}");
    let kept = scene.store.call(ReadDocument { name: DocumentName::Contention }).await.unwrap().unwrap();
    assert_eq!(kept.text, "no book");
}

#[tokio::test(start_paused = true)]
async fn a_book_that_grew_too_long_is_shortened_and_not_refused() {
    let scene = Scene::new();
    let process = scene.process("i-1");
    let reason = "é".repeat(4_000);
    for number in 1..=60 {
        process.control.rollouts.set_tuning(change(number), "ada", Some(reason.clone())).await.unwrap();
    }
    assert_eq!(process.policy(Scope::LockBusy), fixed(60));
    assert_eq!(process.control.rollouts.book().await.unwrap().versions(Scope::LockBusy).number(), 60);
    assert_eq!(roll_back(&process).await.unwrap(), 61);
}
