//! Quiet periods that end: by their time, or because their limit debounces no more.

use std::time::Duration;

use interlock_model::Timestamp;
use interlock_model::admission::StartOutcome;
use interlock_model::limit::document::Pause;
use interlock_model::run::InboxEvent;
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, document, name};
use super::slot_debounce::{QUIET, limit, numbered, quiet_of};
use super::slots::repo;
use crate::limits::GRANT_STEPS_MAX;
use crate::verbs::{DeleteLimit, DeleteRun, PauseLimit, ReadTimeline, RequestCancel, SaveWorkflow};
pub async fn a_run_is_judged_by_all_limits_when_its_quiet_period_ends(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    scene.save_limit("kind", json!({"key": "input.kind", "max_runs": 1})).await;
    let of_kind = |repo: &str| json!({"repo": repo, "kind": "a"});
    let (holder, _) = scene.debounced(of_kind("web")).await;
    let (run, _) = scene.debounced(of_kind("api")).await;
    subject.elapse(QUIET).await;
    scene.fire().await;
    assert!(scene.has_begun(holder).await);
    // It was accepted: it waits even in the queue of a limit that rejects.
    assert_eq!(scene.waits(run).await, Some((name("kind"), Some(1))));
    assert_eq!(scene.place(run).await.expect("it waits").quiet, None);
    assert_ne!(
        scene.debounced(json!({"repo": "api", "kind": "b"})).await.0,
        run,
        "it takes no newer ones in"
    );
    assert_eq!(scene.end_granted(holder).await, 1);
    assert!(scene.has_begun(run).await);
}

pub async fn a_debounced_run_has_the_place_of_its_newest_start(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let with_slots = |queue: Value| {
        let mut document = limit();
        (document["max_runs"], document["queue"]) = (json!(1), queue);
        document
    };
    scene.save_limit("calm", with_slots(json!({"max": 1}))).await;
    let save = SaveWorkflow { tenant: acme(), id: name("other"), document: document() };
    scene.store.call(save).await.unwrap();
    let other = async || {
        let arrived = scene.arrive_as(repo("api"), |request| request.workflow = name("other")).await;
        quiet_of(&arrived).0
    };
    let (early, _) = scene.debounced(repo("api")).await;
    let late = other().await;
    subject.elapse(Duration::from_secs(1)).await;
    assert_eq!(scene.debounced(repo("api")).await.0, early);
    subject.elapse(QUIET).await;
    scene.fire().await;
    assert_eq!((scene.has_begun(late).await, scene.queue("calm", "api").await), (true, vec![early]));
    // The group's queue is full: a run that would only wait for it is not accepted.
    let full = scene.arrive(repo("api")).await;
    assert!(matches!(full, StartOutcome::QueueFull { .. }), "{full:?}");
    scene.end_granted(late).await;
    assert!(scene.has_begun(early).await);
}

pub async fn a_paused_limit_holds_a_debounced_run_back_until_it_is_resumed(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    for paused in ["calm", "tenant-runs"] {
        let (run, _) = scene.debounced(repo(paused)).await;
        let at = Timestamp::from_millis(1);
        let pause = Some(Pause { by: "op".to_owned(), at, reason: None });
        let change = |pause| PauseLimit { tenant: acme(), name: name(paused), pause };
        scene.store.call(change(pause)).await.unwrap();
        assert_eq!(scene.debounced(numbered(paused, 2)).await.0, run, "it takes newer ones in");
        subject.elapse(QUIET).await;
        scene.fire().await;
        assert_eq!(scene.waits(run).await, Some((name(paused), Some(1))));
        scene.store.call(change(None)).await.unwrap();
        assert!(scene.has_begun(run).await);
    }
}

pub async fn a_run_that_is_to_be_cancelled_takes_no_newer_start_in(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(repo("api")).await;
    let cancel = RequestCancel { tenant: acme(), run, by: "ann".to_owned() };
    let _ = scene.store.call(cancel).await.unwrap();
    let (next, quiet) = scene.debounced(repo("api")).await;
    assert_ne!(next, run);
    assert_eq!(scene.end_run(run).await, 0);
    assert_eq!((scene.place(run).await, scene.waiting_for_starts("calm", "api").await), (None, 1));
    assert_eq!(scene.place(next).await.expect("it waits").quiet, Some(quiet));
    scene.store.call(DeleteRun { tenant: acme(), run: next }).await.unwrap();
    assert_eq!((scene.waiting_for_starts("calm", "api").await, scene.next_in().await), (0, None));
    assert_ne!(scene.debounced(repo("api")).await.0, next);
}

pub async fn a_limit_that_debounces_no_more_lets_its_runs_go(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (first, second) = (scene.debounced(repo("api")).await.0, scene.debounced(repo("web")).await.0);
    let (longer, _) = scene.debounced(numbered("api", 2)).await;
    assert_eq!(longer, first);
    let mut other = limit();
    other["quiet_sec"] = json!(9);
    assert_eq!(scene.save_limit("calm", other).await, 0, "with other numbers it waits on");
    assert_eq!(scene.next_in().await, Some(QUIET));
    let granted = scene.save_limit("calm", json!({"max_runs": 1, "on_full": "queue"})).await;
    assert_eq!(granted, 2);
    for run in [first, second] {
        assert!(scene.has_begun(run).await);
        assert!(matches!(scene.posted_to(run).await[..], [InboxEvent::Granted { .. }]));
    }
    scene.save_limit("calm", limit()).await;
    let (third, _) = scene.debounced(repo("third")).await;
    let delete = DeleteLimit { tenant: acme(), name: name("calm"), replaces: None };
    scene.store.call(delete).await.unwrap();
    assert!(scene.has_begun(third).await);
    assert_eq!(scene.run(third).await.start.input, repo("third"));
    assert_eq!(scene.next_in().await, None);
}

pub async fn more_debounced_runs_than_one_step_ends_are_continued_by_a_timer(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1_000).await;
    scene.save_limit("calm", limit()).await;
    let mut runs = Vec::new();
    for number in 0..GRANT_STEPS_MAX + 5 {
        runs.push(scene.debounced(repo(&format!("r{number}"))).await.0);
    }
    subject.elapse(QUIET).await;
    scene.fire().await;
    assert_eq!(scene.active(&acme()).await, GRANT_STEPS_MAX);
    scene.fire().await;
    assert_eq!(scene.active(&acme()).await, GRANT_STEPS_MAX + 5);
    for number in 0..GRANT_STEPS_MAX + 5 {
        runs.push(scene.debounced(repo(&format!("r{number}"))).await.0);
    }
    let delete = DeleteLimit { tenant: acme(), name: name("calm"), replaces: None };
    scene.store.call(delete).await.unwrap();
    assert_eq!(scene.active(&acme()).await, 2 * GRANT_STEPS_MAX + 5);
    scene.fire().await;
    assert_eq!(scene.active(&acme()).await, 2 * (GRANT_STEPS_MAX + 5));
    assert_eq!(scene.next_in().await, None);
}

pub async fn a_debounced_run_says_in_its_timeline_what_it_waited_for(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(repo("api")).await;
    scene.debounced(repo("api")).await;
    subject.elapse(QUIET).await;
    scene.fire().await;
    let read = ReadTimeline { tenant: acme(), run, after: 0, limit: 10 };
    let timeline = scene.store.call(read).await.unwrap();
    let says = timeline.iter().map(|recorded| (recorded.sequence, recorded.event.message.as_deref()));
    let expected =
        [(1, Some("waits until no newer start comes")), (2, Some("no newer start came; starts so far: 2"))];
    assert_eq!(says.collect::<Vec<_>>(), expected);
}

pub async fn debounced_runs_survive_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::debouncing(subject).await;
    let (run, _) = scene.debounced(numbered("api", 1)).await;
    let (_, quiet) = scene.debounced(numbered("api", 2)).await;
    drop(scene);
    subject.reopen().await;
    let scene = Scene::of(subject);
    assert_eq!(scene.place(run).await.expect("it waits").quiet, Some(quiet));
    assert_eq!(scene.next_in().await, Some(QUIET));
    assert_eq!(scene.debounced(numbered("api", 3)).await.0, run);
    subject.elapse(QUIET).await;
    assert!(scene.fire().await > 0);
    assert!(scene.has_begun(run).await);
    assert_eq!(scene.run(run).await.start.input, numbered("api", 3));
}
