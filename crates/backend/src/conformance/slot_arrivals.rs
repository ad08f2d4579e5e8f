//! What happens to a start: it begins, is rejected, or waits.

use std::collections::BTreeSet;

use interlock_model::admission::StartOutcome;
use interlock_model::limit::document::Pause;
use interlock_model::limit::group::Fullness;
use interlock_model::limit::place::POSITIONS_COUNTED;
use interlock_model::limit::rule::LIMITS_MAX;
use interlock_model::run::RunStatus;
use interlock_model::{LimitName, Timestamp};
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, name};
use super::slots::{limit_document, queued, repo};
use crate::limits::LimitChange;
use crate::verbs::{Admit, DeleteLimit, DeleteRun, ListQueuedRuns, MoveQueuedRun, PauseLimit, SaveLimit};
use crate::{Page, PageRequest, StoreError};

pub async fn a_full_group_rejects_and_another_group_starts(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1})).await;
    scene.live(repo("api")).await;
    let StartOutcome::LimitReached { blocked, .. } = scene.arrive(repo("api")).await else {
        panic!("the group is full")
    };
    assert_eq!((blocked.limit.as_str(), blocked.group.as_str()), ("per-repo", "api"));
    assert_eq!((blocked.fullness, blocked.live, blocked.runs_max), (Fullness::Slots, 1, Some(1)));
    scene.live(repo("web")).await;
    assert_eq!(scene.active(&acme()).await, 2);
    assert_eq!(scene.usage("per-repo", "api").await, (1, 0));
}

pub async fn a_rejected_start_leaves_its_key_free(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1})).await;
    let first = scene.live(repo("api")).await;
    let again = scene.counted(Some("k"), repo("api")).await;
    assert!(matches!(scene.admit(again.clone()).await, StartOutcome::LimitReached { .. }));
    scene.end_run(first).await;
    let fresh = scene.counted(Some("k"), repo("api")).await;
    assert!(matches!(scene.admit(fresh).await, StartOutcome::Admitted { .. }));
}

pub async fn nothing_starts_by_limits_that_have_changed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let admit = scene.counted(None, repo("api")).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1})).await;
    assert!(matches!(scene.admit(admit).await, StartOutcome::LimitsChanged { .. }));
    assert_eq!(scene.active(&acme()).await, 0);
    scene.live(repo("api")).await;
    let admit = scene.counted(None, repo("api")).await;
    scene.store.call(DeleteLimit { tenant: acme(), name: name("per-repo"), replaces: None }).await.unwrap();
    assert!(matches!(scene.admit(admit).await, StartOutcome::LimitsChanged { .. }));
    scene.live(repo("api")).await;
}

pub async fn a_run_waits_without_a_slot_where_a_limit_queues(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"})).await;
    scene.live(repo("api")).await;
    let first = queued(&scene.arrive(repo("api")).await);
    let second = queued(&scene.arrive(repo("api")).await);
    assert_eq!((first.1.as_str(), first.2), ("per-repo", Some(1)));
    assert_eq!(second.2, Some(2));
    assert_eq!(scene.queue("per-repo", "api").await, [first.0, second.0]);
    assert_eq!(scene.usage("per-repo", "api").await, (1, 2));
    assert_eq!(scene.active(&acme()).await, 1, "a waiting run holds no slot");
    assert!(scene.take(&acme(), first.0).await.is_none(), "nothing is to be done for it");
    assert_eq!(scene.waits(second.0).await, Some((name::<LimitName>("per-repo"), Some(2))));
}

pub async fn a_tenant_may_queue_at_its_cap(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.queue_at_cap(1, 2).await;
    let live = scene.live(repo("api")).await;
    let waiting = scene.waiting_run(repo("api")).await;
    assert_eq!(queued(&scene.arrive(repo("web")).await).1.as_str(), "tenant-runs");
    let StartOutcome::QueueFull { blocked, .. } = scene.arrive(repo("web")).await else {
        panic!("the queue is full")
    };
    assert_eq!((blocked.live, blocked.queued, blocked.fullness), (1, 2, Fullness::Slots));
    assert_eq!(scene.usage("tenant-runs", "").await, (1, 2));
    assert_eq!(scene.end_run(live).await, 1);
    assert_eq!(scene.waits(waiting).await, None);
}

pub async fn any_full_limit_that_rejects_leaves_nothing_behind(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"})).await;
    scene.save_limit("all", json!({"max_runs": 1})).await;
    scene.live(repo("api")).await;
    let StartOutcome::LimitReached { blocked, .. } = scene.arrive(repo("api")).await else {
        panic!("a limit rejects")
    };
    assert_eq!(blocked.limit.as_str(), "all");
    assert_eq!(scene.usage("per-repo", "api").await, (1, 0));
    assert_eq!(scene.usage("all", "").await, (1, 0));
}

pub async fn a_key_that_is_queued_is_replayed_and_a_repeat_has_its_place(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.queue_at_cap(1, 10).await;
    scene.live(repo("api")).await;
    let admit = scene.counted(Some("k"), repo("api")).await;
    let run = queued(&scene.admit(admit.clone()).await).0;
    let repeat = Admit { is_repeat: true, ..admit };
    let (repeated, _, position) = queued(&scene.admit(repeat).await);
    assert_eq!((repeated, position), (run, Some(1)));
    let other = scene.counted(Some("k"), repo("api")).await;
    let StartOutcome::Replayed { run: replayed, status, .. } = scene.admit(other).await else {
        panic!("the key has started a run")
    };
    assert_eq!((replayed, status.map(RunStatus::name)), (run, Some("queued")));
    assert_eq!(scene.usage("tenant-runs", "").await, (1, 1));
}

pub async fn a_paused_limit_starts_nothing_until_it_is_resumed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.save_limit("queues", json!({"key": "input.repo", "max_runs": 5, "on_full": "queue"})).await;
    let pause = async |limit: &str, is_paused: bool| {
        let reason = Some("bad release".to_owned());
        let pause = is_paused.then(|| Pause { by: "lea".to_owned(), at: Timestamp::ZERO, reason });
        scene.store.call(PauseLimit { tenant: acme(), name: name(limit), pause }).await
    };
    let granted = |change| match change {
        LimitChange::Done { granted, .. } => granted,
        LimitChange::Changed { .. } => panic!("nothing else changes it"),
    };
    scene.live(repo("api")).await;
    assert_eq!(granted(pause("queues", true).await.unwrap()), 0);
    assert_eq!(scene.book().await.limits[0].paused.as_ref().unwrap().by, "lea");
    let StartOutcome::Queued { run, blocked, .. } = scene.arrive(repo("api")).await else {
        panic!("a paused limit that queues lets wait")
    };
    assert_eq!(blocked.fullness, Fullness::Paused);
    // A new document does not resume it.
    let document = json!({"key": "input.repo", "max_runs": 6, "on_full": "queue"});
    assert_eq!(scene.save_limit("queues", document).await, 0);
    assert_eq!(granted(pause("queues", false).await.unwrap()), 1);
    scene.begin_granted(run).await;

    pause("tenant-runs", true).await.unwrap();
    assert!(scene.book().await.paused.is_some());
    let StartOutcome::LimitReached { blocked, .. } = scene.arrive(repo("web")).await else {
        panic!("a paused tenant that rejects starts nothing")
    };
    assert_eq!((blocked.limit.as_str(), blocked.fullness), ("tenant-runs", Fullness::Paused));
    pause("tenant-runs", false).await.unwrap();
    scene.live(repo("web")).await;
    assert!(matches!(pause("missing", true).await, Err(StoreError::NotFound { .. })));
}

pub async fn limits_have_revisions_and_a_tenant_has_a_bounded_number(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let save = async |limit: &str, book: u64, replaces: Option<u64>| {
        let (tenant, document) = (acme(), limit_document(json!({"max_runs": 3})));
        scene.store.call(SaveLimit { tenant, name: name(limit), document, book, replaces }).await
    };
    assert_eq!(save("one", 0, Some(0)).await, Ok(LimitChange::Done { revision: 1, granted: 0 }));
    assert_eq!(save("one", 1, Some(0)).await, Ok(LimitChange::Changed { revision: 1 }), "it is not new");
    assert_eq!(save("two", 0, None).await, Ok(LimitChange::Changed { revision: 0 }), "another one is newer");
    assert_eq!(save("one", 1, Some(1)).await, Ok(LimitChange::Done { revision: 2, granted: 0 }));
    let delete =
        async |replaces| scene.store.call(DeleteLimit { tenant: acme(), name: name("one"), replaces }).await;
    assert_eq!(delete(Some(1)).await, Ok(LimitChange::Changed { revision: 2 }));
    assert_eq!(delete(Some(2)).await, Ok(LimitChange::Done { revision: 3, granted: 0 }));
    assert!(matches!(delete(None).await, Err(StoreError::NotFound { .. })));
    let most = u64::from(LIMITS_MAX);
    for number in 0..most {
        save(&format!("l{number}"), 3 + number, None).await.unwrap();
    }
    assert!(matches!(save("more", 3 + most, None).await, Err(StoreError::QuotaReached { .. })));
    assert!(matches!(save("l0", 3 + most, None).await, Ok(LimitChange::Done { .. })));
    assert_eq!(scene.book().await.limits.len(), LIMITS_MAX as usize);
}

pub async fn a_queue_is_listed_page_by_page_while_runs_leave_it(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let priority = json!({"order": "priority"});
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "queue", "queue": priority})).await;
    let live = scene.live(json!({})).await;
    let mut waiting = Vec::new();
    // All of one moment and one priority: they differ by their arrival alone.
    for _ in 0..5 {
        waiting.push(scene.waiting_run(json!({})).await);
    }
    let page = async |after: Option<String>| {
        let page = PageRequest { limit: 2, after };
        let list = ListQueuedRuns { tenant: acme(), name: name("one"), group: name(""), page };
        let Page { items, next } = scene.store.call(list).await.expect("the store is up");
        (items.into_iter().map(|queued| (queued.run, queued.position)).collect::<Vec<_>>(), next)
    };
    let (first, next) = page(None).await;
    assert_eq!(first, [(waiting[0], Some(1)), (waiting[1], Some(2))]);
    // The last run of the page leaves: the next page begins behind its place.
    scene.store.call(DeleteRun { tenant: acme(), run: waiting[1] }).await.expect("it is there");
    let (second, next) = page(next).await;
    assert_eq!(second, [(waiting[2], Some(2)), (waiting[3], Some(3))]);
    assert_eq!(page(next).await, (vec![(waiting[4], Some(4))], None));
    scene.end_run(live).await;
}

pub async fn a_fair_queue_is_listed_page_by_page_to_its_end(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let queue = json!({"order": "fair", "fair_by": "input.user", "max": 2_000});
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "queue", "queue": queue})).await;
    let user = |user: &str| json!({"user": user});
    scene.live(user("ann")).await;
    let mut waiting = BTreeSet::new();
    for _ in 0..POSITIONS_COUNTED + 5 {
        waiting.insert(scene.waiting_run(user("ann")).await);
    }
    let bob = scene.waiting_run(user("bob")).await;
    waiting.insert(bob);
    let page = async |limit: usize, after: Option<String>| {
        let page = PageRequest { limit, after };
        let list = ListQueuedRuns { tenant: acme(), name: name("one"), group: name(""), page };
        scene.store.call(list).await.expect("the store is up")
    };
    let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        // The last runs have no positions: pages of them are short here.
        let limit = if listed.len() < POSITIONS_COUNTED { 400 } else { 4 };
        let Page { items, next } = page(limit, after).await;
        assert!(items.len() <= limit);
        listed.extend(items);
        (after, pages) = (next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((listed.len(), pages), (POSITIONS_COUNTED + 6, 5));
    assert!(listed[..2].iter().any(|queued| queued.run == bob), "{:?}", &listed[..2]);
    for (number, queued) in (1..).zip(&listed) {
        let expected = Some(number).filter(|number| *number <= POSITIONS_COUNTED as u64);
        assert_eq!(queued.position, expected);
    }
    let runs: BTreeSet<_> = listed.iter().map(|queued| queued.run).collect();
    assert_eq!(runs, waiting, "each is listed once");
}

pub async fn a_waiting_run_can_be_moved_in_its_queue(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"})).await;
    let live = scene.live(repo("api")).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(scene.waiting_run(repo("api")).await);
    }
    let move_to = async |run, to_front| {
        scene.store.call(MoveQueuedRun { tenant: acme(), run, to_front }).await.unwrap()
    };
    assert!(move_to(runs[2], true).await);
    assert_eq!(scene.queue("per-repo", "api").await, [runs[2], runs[0], runs[1]]);
    assert!(move_to(runs[2], false).await);
    assert!(move_to(runs[2], false).await, "it is there already");
    assert_eq!(scene.queue("per-repo", "api").await, [runs[0], runs[1], runs[2]]);
    assert!(move_to(runs[0], false).await);
    assert_eq!(scene.queue("per-repo", "api").await, [runs[1], runs[2], runs[0]]);
    assert!(!move_to(live, true).await, "it does not wait");
    assert_eq!(scene.usage("per-repo", "api").await, (1, 3));
}
