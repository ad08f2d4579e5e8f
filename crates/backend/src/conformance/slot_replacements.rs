//! Starts that join a run, or take the place of one.

use std::sync::Arc;

use interlock_model::RunId;
use interlock_model::admission::StartOutcome;
use interlock_model::limit::place::JOINED_KEYS_MAX;
use interlock_model::run::InboxEvent;
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, document, name};
use super::slots::{queued, repo};
use crate::verbs::{Admit, SaveWorkflow};

fn joined(outcome: &StartOutcome) -> RunId {
    match outcome {
        StartOutcome::Joined { run, .. } => *run,
        other => panic!("expected a run that exists, got {other:?}"),
    }
}

fn replaced_by(posted: &[InboxEvent]) -> RunId {
    match posted {
        [InboxEvent::Replaced { by, limit }] => {
            assert_eq!(*limit, name("one"));
            *by
        }
        other => panic!("expected to be replaced, got {other:?}"),
    }
}

pub async fn a_start_joins_the_run_of_its_group(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "join"})).await;
    let run = scene.live(repo("api")).await;
    assert_eq!(joined(&scene.arrive(repo("api")).await), run);
    assert_ne!(scene.live(repo("web")).await, run);
    assert_eq!(scene.active(&acme()).await, 2);
    assert_eq!(scene.usage("one", "api").await, (1, 0));
    scene.end_run(run).await;
    assert_ne!(scene.live(repo("api")).await, run, "it has ended");
}

pub async fn a_key_that_joined_is_replayed_with_that_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "join"})).await;
    let run = scene.live(repo("api")).await;
    let admit = scene.counted(Some("k"), repo("api")).await;
    assert_eq!(joined(&scene.admit(admit).await), run);
    scene.end_run(run).await;
    let again = scene.counted(Some("k"), repo("api")).await;
    let StartOutcome::Replayed { run: replayed, status, .. } = scene.admit(again).await else {
        panic!("the key stands for the run")
    };
    assert_eq!(replayed, run);
    assert!(status.is_some_and(interlock_model::run::RunStatus::is_final));
    let other = scene.counted(Some("k"), json!({"repo": "api", "n": 2})).await;
    assert!(matches!(scene.admit(other).await, StartOutcome::KeyReused { .. }));
}

pub async fn a_run_answers_a_bounded_number_of_keys(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "join"})).await;
    let run = scene.live(json!({})).await;
    for number in 0..JOINED_KEYS_MAX {
        let admit = scene.counted(Some(&format!("k{number}")), json!({})).await;
        assert_eq!(joined(&scene.admit(admit).await), run);
    }
    let admit = scene.counted(Some("more"), json!({})).await;
    assert!(matches!(scene.admit(admit).await, StartOutcome::QueueFull { .. }));
    assert_eq!(joined(&scene.arrive(json!({})).await), run, "without a key nothing is kept");
}

pub async fn a_newcomer_takes_the_place_of_the_youngest_that_waits(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let queue = json!({"max": 2});
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "replace_queued", "queue": queue})).await;
    let live = scene.live(json!({})).await;
    let first = scene.waiting_run(json!({})).await;
    let second = scene.waiting_run(json!({})).await;
    let (third, _, position) = queued(&scene.arrive(json!({})).await);
    assert_eq!(position, Some(2));
    assert_eq!(scene.queue("one", "").await, [first, third]);
    assert_eq!(replaced_by(&scene.posted_to(second).await), third);
    assert_eq!(scene.usage("one", "").await, (1, 2));
    assert_eq!(scene.end_run(live).await, 1);
    assert_eq!(scene.waits(first).await, None);
}

pub async fn a_newcomer_replaces_the_oldest_live_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 2, "on_full": "replace_running"})).await;
    let (old, young) = (scene.live(repo("api")).await, scene.live(repo("api")).await);
    let (newcomer, limit, position) = queued(&scene.arrive(repo("api")).await);
    assert_eq!((limit.as_str(), position), ("one", Some(1)));
    assert_eq!(replaced_by(&scene.posted_to(old).await), newcomer);
    assert!(!scene.posted_to(young).await.iter().any(|event| matches!(event, InboxEvent::Replaced { .. })));
    // A later one takes the place of the one that waits for the end; nothing more is cancelled.
    let (latest, ..) = queued(&scene.arrive(repo("api")).await);
    assert_eq!(replaced_by(&scene.posted_to(newcomer).await), latest);
    assert_eq!(scene.posted_to(old).await.len(), 1);
    assert_eq!(scene.queue("one", "api").await, [latest]);
    assert_eq!(scene.end_run(old).await, 1);
    scene.begin_granted(latest).await;
    assert_eq!(scene.usage("one", "api").await, (2, 0));
    // The next replacement has a run of its own to replace.
    let (next, ..) = queued(&scene.arrive(repo("api")).await);
    assert_eq!(replaced_by(&scene.posted_to(young).await), next);
}

pub async fn no_run_is_replaced_by_one_that_could_not_start(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "replace_running"})).await;
    scene.save_limit("kind", json!({"key": "input.kind", "max_runs": 1})).await;
    let kind = |repo: &str, kind: &str| json!({"repo": repo, "kind": kind});
    let run = scene.live(kind("api", "a")).await;
    scene.live(kind("web", "b")).await;
    assert!(matches!(scene.arrive(kind("api", "b")).await, StartOutcome::LimitReached { .. }));
    assert!(scene.posted_to(run).await.is_empty());
    // What it replaces frees the slot of the other limit, too.
    let (newcomer, ..) = queued(&scene.arrive(kind("api", "a")).await);
    assert_eq!(replaced_by(&scene.posted_to(run).await), newcomer);
}

pub async fn a_newcomer_that_would_wait_for_another_limit_replaces_no_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "replace_running"})).await;
    scene.save_limit("kind", json!({"key": "input.kind", "max_runs": 1, "on_full": "queue"})).await;
    let kind = |repo: &str, kind: &str| json!({"repo": repo, "kind": kind});
    let run = scene.live(kind("api", "a")).await;
    scene.live(kind("web", "b")).await;
    let newcomer = scene.waiting_run(kind("api", "b")).await;
    assert_eq!(scene.queue("kind", "b").await, [newcomer]);
    assert!(scene.posted_to(run).await.is_empty());
}

pub async fn the_full_limit_that_replaces_decides_and_not_a_narrower_one(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("kind", json!({"key": "input.kind", "max_runs": 5, "on_full": "replace_running"})).await;
    scene.save_limit("one", json!({"key": "input.repo", "max_runs": 1, "on_full": "replace_running"})).await;
    let input = json!({"repo": "api", "kind": "a"});
    let run = scene.live(input.clone()).await;
    let (newcomer, limit, _) = queued(&scene.arrive(input).await);
    assert_eq!(limit, name("one"));
    assert_eq!(replaced_by(&scene.posted_to(run).await), newcomer);
}

pub async fn a_start_of_another_workflow_joins_no_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "join"})).await;
    let run = scene.live(json!({})).await;
    let save = SaveWorkflow { tenant: acme(), id: name("other"), document: document() };
    scene.store.call(save).await.unwrap();
    let admit = scene.counted(None, json!({})).await;
    let mut request = (*admit.request).clone();
    request.workflow = name("other");
    let other = scene.admit(Admit { request: Arc::new(request), ..admit }).await;
    assert!(matches!(other, StartOutcome::LimitReached { .. }), "{other:?}");
    assert_eq!(joined(&scene.arrive(json!({})).await), run);
}
