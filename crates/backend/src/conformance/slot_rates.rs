//! Rates: starts over time, rejected or queued beyond them.

use std::time::Duration;

use interlock_model::admission::StartOutcome;
use interlock_model::limit::group::Fullness;
use interlock_model::run::Ending;
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, ending, name};
use super::slots::repo;
use crate::verbs::{FindDue, FireTimers, ReadLimitUsage};

/// A pace that a rule can wait for.
const INTERVAL: Duration = Duration::from_secs(1);

async fn fire(scene: &Scene) -> usize {
    let fire = FireTimers { tenant: acme(), ahead: Duration::from_secs(10), limit: 100 };
    scene.store.call(fire).await.expect("the store is up")
}

pub async fn a_rate_rejects_what_comes_too_fast(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let rate = json!({"starts": 3, "period_sec": 3, "burst": 2});
    scene.save_limit("pace", json!({"key": "input.repo", "rate": rate})).await;
    scene.live(repo("api")).await;
    scene.live(repo("api")).await;
    let StartOutcome::LimitReached { blocked, .. } = scene.arrive(repo("api")).await else {
        panic!("the burst is used up")
    };
    assert!(matches!(blocked.fullness, Fullness::Rate { .. }), "{blocked:?}");
    scene.live(repo("web")).await;
    subject.elapse(INTERVAL + Duration::from_millis(50)).await;
    let run = scene.live(repo("api")).await;
    // A rate counts starts, not live runs.
    scene.end_run(run).await;
    assert!(matches!(scene.arrive(repo("api")).await, StartOutcome::LimitReached { .. }));
}

pub async fn runs_that_come_too_fast_wait_for_their_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let rate = json!({"starts": 3, "period_sec": 3, "burst": 1});
    scene.save_limit("pace", json!({"rate": rate, "on_full": "queue"})).await;
    scene.live(json!({})).await;
    let first = scene.waiting_run(json!({})).await;
    let second = scene.waiting_run(json!({})).await;
    assert_eq!(fire(&scene).await, 0, "it is not granted ahead of its time");
    let next_in = scene.store.call(FindDue { limit: 10 }).await.unwrap().next_in.expect("a timer is set");
    assert!(next_in <= INTERVAL, "{next_in:?}");
    subject.elapse(INTERVAL + Duration::from_millis(50)).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().timers, [acme()]);
    assert!(fire(&scene).await > 0);
    assert_eq!((scene.waits(first).await, scene.waits(second).await.unwrap().1), (None, Some(1)));
    subject.elapse(INTERVAL + Duration::from_millis(50)).await;
    assert!(fire(&scene).await > 0);
    assert_eq!(scene.waits(second).await, None);
    assert_eq!(scene.usage("pace", "").await, (3, 0));
    // A grant counts as a start.
    scene.waiting_run(json!({})).await;
}

pub async fn a_limit_that_is_saved_without_a_rate_has_none(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let rate = json!({"starts": 1, "period_sec": 60});
    scene.save_limit("pace", json!({"max_runs": 2, "rate": rate, "on_full": "queue"})).await;
    scene.live(json!({})).await;
    scene.waiting_run(json!({})).await;
    assert_eq!(scene.save_limit("pace", json!({"max_runs": 3})).await, 1);
    scene.live(json!({})).await;
    assert!(matches!(scene.arrive(json!({})).await, StartOutcome::LimitReached { .. }), "it queues no more");
}

pub async fn a_run_that_waits_too_long_is_made_ready_to_end(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let queue = json!({"max_wait_sec": 1});
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "queue", "queue": queue})).await;
    let live = scene.live(json!({})).await;
    let waiting = scene.waiting_run(json!({})).await;
    assert!(scene.take(&acme(), waiting).await.is_none());
    subject.elapse(INTERVAL + Duration::from_millis(50)).await;
    assert!(fire(&scene).await > 0);
    let taken = scene.taken(&acme(), waiting).await;
    assert!(taken.head.queued_until.is_some_and(|until| until <= taken.now));
    let ended = scene.commit(ending(&taken, Ending::TimedOut)).await.unwrap();
    assert_eq!(ended.granted, 0);
    assert_eq!(scene.usage("one", "").await, (1, 0));
    assert_eq!(scene.end_run(live).await, 0);
}

pub async fn a_group_that_only_its_rate_remembers_is_forgotten_in_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let rate = json!({"starts": 1, "period_sec": 1});
    scene.save_limit("pace", json!({"key": "input.repo", "rate": rate})).await;
    let run = scene.live(repo("api")).await;
    scene.end_run(run).await;
    let groups = async || {
        let read = ReadLimitUsage { tenant: acme(), name: name("pace"), group: None };
        scene.store.call(read).await.expect("the store is up").groups.len()
    };
    assert_eq!(groups().await, 1);
    subject.elapse(INTERVAL + Duration::from_millis(50)).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().timers, [acme()]);
    assert!(fire(&scene).await > 0);
    assert_eq!(groups().await, 0);
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().timers, []);
}
