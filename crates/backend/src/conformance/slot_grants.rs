//! Slots that come free go to the runs that wait for them, in order, in the step that frees them.

use interlock_model::RunId;
use interlock_model::run::{Ending, InboxEvent};
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, ending, idle, name};
use super::slots::{group, repo};
use crate::limits::{GRANT_STEPS_MAX, LimitChange, LimitUsage};
use crate::verbs::{DeleteLimit, DeleteRun, FindDue, FireTimers, ListSlots, ReadLimitUsage, RequestCancel};

/// One run per repository, the others wait.
async fn per_repo(subject: &dyn Subject) -> Scene {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 1, "on_full": "queue"})).await;
    scene
}

async fn fire(scene: &Scene) -> usize {
    let fire = FireTimers { tenant: acme(), ahead: std::time::Duration::ZERO, limit: 100 };
    scene.store.call(fire).await.expect("the store is up")
}

pub async fn the_run_that_ends_gives_its_slot_to_the_one_that_waited_longest(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    let mut live = scene.live(repo("api")).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(scene.waiting_run(repo("api")).await);
    }
    for (left, next) in [2, 1, 0].into_iter().zip(&waiting) {
        assert_eq!(scene.end_run(live).await, 1);
        assert_eq!(scene.usage("per-repo", "api").await, (1, left));
        assert_eq!(scene.active(&acme()).await, 1);
        scene.begin_granted(*next).await;
        live = *next;
    }
    assert_eq!(scene.end_run(live).await, 0);
    let read = ReadLimitUsage { tenant: acme(), name: name("per-repo"), group: Some(group("api")) };
    assert_eq!(scene.store.call(read).await.unwrap(), LimitUsage::default(), "nothing is kept of it");
    assert_eq!(scene.active(&acme()).await, 0);
}

pub async fn a_higher_priority_goes_first(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let queue = json!({"order": "priority"});
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "queue", "queue": queue})).await;
    scene.live(json!({})).await;
    let mut runs = Vec::new();
    for priority in [4, 9, 0, 9, 5] {
        runs.push(super::slots::queued(&scene.arrive_with(priority, json!({})).await).0);
    }
    assert_eq!(scene.queue("one", "").await, [runs[1], runs[3], runs[4], runs[0], runs[2]]);
    assert_eq!(scene.waits(runs[4]).await.unwrap().1, Some(3));
}

pub async fn a_run_takes_all_of_its_slots_or_none(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    scene.save_limit("two", json!({"max_runs": 2, "on_full": "queue"})).await;
    let api = scene.live(repo("api")).await;
    let web = scene.live(repo("web")).await;
    let blocked_twice = scene.waiting_run(repo("api")).await;
    assert_eq!(scene.waits(blocked_twice).await.unwrap().0, name("per-repo"), "the narrowest");
    assert_eq!(scene.usage("two", "").await, (2, 0));
    // Its repository is free, and the other limit is full: it moves there, and holds nothing meanwhile.
    let other = scene.waiting_run(repo("docs")).await;
    assert_eq!(scene.waits(other).await.unwrap().0, name("two"));
    assert_eq!(scene.end_run(api).await, 1, "the one that arrived first");
    assert_eq!(scene.waits(blocked_twice).await, None);
    assert_eq!(scene.waits(other).await.unwrap().0, name("two"));
    assert_eq!(scene.usage("per-repo", "api").await, (1, 0));
    assert_eq!(scene.usage("per-repo", "docs").await, (0, 0));
    assert_eq!(scene.usage("two", "").await, (2, 1));
    assert_eq!(scene.end_run(web).await, 1);
    assert_eq!(scene.usage("per-repo", "docs").await, (1, 0));
    assert_eq!(scene.end_granted(other).await, 0);
    assert_eq!(scene.end_granted(blocked_twice).await, 0);
    assert_eq!((scene.usage("two", "").await, scene.active(&acme()).await), ((0, 0), 0));
}

pub async fn a_run_that_another_limit_blocks_holds_up_no_other(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    scene.save_limit("two", json!({"max_runs": 2, "on_full": "queue"})).await;
    let first = scene.live(repo("api")).await;
    let second = scene.live(repo("web")).await;
    // Both wait for `two`; when it frees, the first of them is blocked by its repository.
    let behind_web = scene.waiting_run(repo("docs")).await;
    let free = scene.waiting_run(repo("wiki")).await;
    assert_eq!(scene.queue("two", "").await, [behind_web, free]);
    assert_eq!(scene.end_run(first).await, 1);
    assert_eq!(scene.waits(behind_web).await, None);
    let same_repo = scene.waiting_run(repo("docs")).await;
    assert_eq!(scene.waits(same_repo).await.unwrap().0, name("per-repo"));
    assert_eq!(scene.end_run(second).await, 1);
    assert_eq!(scene.waits(free).await, None, "it can start, and starts");
    assert_eq!(scene.waits(same_repo).await.unwrap().0, name("per-repo"));
}

pub async fn a_slot_goes_to_the_run_that_arrived_first_in_whichever_queue_it_waits(
    subject: &mut dyn Subject,
) {
    let scene = per_repo(subject).await;
    scene.save_limit("one", json!({"max_runs": 1, "on_full": "queue"})).await;
    let live = scene.live(repo("api")).await;
    let first = scene.waiting_run(repo("web")).await;
    let second = scene.waiting_run(repo("api")).await;
    assert_eq!(scene.waits(second).await.unwrap().0, name("per-repo"));
    // It frees both, and the second run stands first in the queue of the narrower one.
    assert_eq!(scene.end_run(live).await, 1);
    assert_eq!(scene.waits(first).await, None);
    assert_eq!(scene.waits(second).await, Some((name("one"), Some(1))));
}

pub async fn a_run_keeps_its_place_when_it_moves_to_another_queue(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    scene.queue_at_cap(2, 100).await;
    let api = scene.live(repo("api")).await;
    let _web = scene.live(repo("web")).await;
    let early = scene.waiting_run(repo("api")).await;
    let late = scene.waiting_run(repo("docs")).await;
    assert_eq!(scene.waits(early).await.unwrap().0, name("per-repo"));
    assert_eq!(scene.waits(late).await.unwrap().0, name("tenant-runs"));
    // A lower cap: the end of `api` frees its repository, and no slot of the tenant.
    scene.queue_at_cap(1, 100).await;
    assert_eq!(scene.end_run(api).await, 0);
    assert_eq!(scene.queue("tenant-runs", "").await, [early, late], "it arrived first");
    assert_eq!(scene.usage("per-repo", "api").await, (0, 0));
}

pub async fn a_raised_limit_grants_in_the_step_that_writes_it(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    scene.live(repo("api")).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(scene.waiting_run(repo("api")).await);
    }
    let raised = json!({"key": "input.repo", "max_runs": 3, "on_full": "queue"});
    assert_eq!(scene.save_limit("per-repo", raised).await, 2);
    assert_eq!(scene.usage("per-repo", "api").await, (3, 1));
    assert_eq!(scene.waits(waiting[2]).await.unwrap().1, Some(1));
    // The tenant's own.
    scene.queue_at_cap(3, 100).await;
    let over = scene.waiting_run(repo("web")).await;
    scene.queue_at_cap(4, 100).await;
    assert_eq!(scene.waits(over).await, None);
    assert_eq!(scene.active(&acme()).await, 4);
}

pub async fn a_lowered_limit_ends_nothing_and_drains(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("all", json!({"max_runs": 2, "on_full": "queue"})).await;
    let (first, second) = (scene.live(json!({})).await, scene.live(json!({})).await);
    let waiting = scene.waiting_run(json!({})).await;
    assert_eq!(scene.save_limit("all", json!({"max_runs": 1, "on_full": "queue"})).await, 0);
    assert_eq!(scene.usage("all", "").await, (2, 1));
    assert_eq!(scene.end_run(first).await, 0);
    assert_eq!(scene.end_run(second).await, 1);
    assert_eq!(scene.waits(waiting).await, None);
}

pub async fn a_deleted_limit_lets_its_queue_go(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    let mut live = Vec::new();
    let mut waiting = Vec::new();
    for of in ["api", "web"] {
        live.push(scene.live(repo(of)).await);
        waiting.push(scene.waiting_run(repo(of)).await);
    }
    let delete = DeleteLimit { tenant: acme(), name: name("per-repo"), replaces: None };
    let LimitChange::Done { granted, .. } = scene.store.call(delete).await.unwrap() else {
        panic!("nothing else changes it")
    };
    assert_eq!(granted, 2);
    for run in waiting {
        assert_eq!(scene.waits(run).await, None);
        scene.end_granted(run).await;
    }
    for run in live {
        scene.end_run(run).await;
    }
    assert_eq!((scene.usage("per-repo", "api").await, scene.active(&acme()).await), ((0, 0), 0));
}

pub async fn more_grants_than_one_step_gives_are_continued_by_a_timer(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1_000).await;
    scene.save_limit("all", json!({"max_runs": 0, "on_full": "queue"})).await;
    let count = GRANT_STEPS_MAX + 20;
    for _ in 0..count {
        scene.waiting_run(json!({})).await;
    }
    let granted = scene.save_limit("all", json!({"max_runs": 500, "on_full": "queue"})).await;
    assert!(granted > 0 && granted <= GRANT_STEPS_MAX, "{granted}");
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert_eq!(due.timers, [acme()]);
    while fire(&scene).await > 0 {}
    assert_eq!(scene.usage("all", "").await, (count, 0));
    assert_eq!(scene.active(&acme()).await, count);
}

pub async fn groups_that_stay_full_do_not_keep_a_timer_from_those_behind_them(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1_000).await;
    let limit = |runs: u32| json!({"key": "input.repo", "max_runs": runs, "on_full": "queue"});
    scene.save_limit("per-repo", limit(0)).await;
    let groups: Vec<String> = (0..GRANT_STEPS_MAX + 5).map(|number| format!("repo-{number}")).collect();
    for of in &groups {
        scene.waiting_run(repo(of)).await;
        scene.waiting_run(repo(of)).await;
    }
    scene.save_limit("per-repo", limit(1)).await;
    let mut timers = 0;
    while fire(&scene).await > 0 {
        timers += 1;
        assert!(timers <= groups.len(), "the same groups are looked at again and again");
    }
    for of in &groups {
        assert_eq!(scene.usage("per-repo", of).await, (1, 1), "{of}");
    }
}

pub async fn a_newcomer_does_not_overtake_those_that_wait(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1_000).await;
    scene.save_limit("all", json!({"max_runs": 0, "on_full": "queue"})).await;
    let count = GRANT_STEPS_MAX + 5;
    for _ in 0..count {
        scene.waiting_run(json!({})).await;
    }
    scene.save_limit("all", json!({"max_runs": 500, "on_full": "queue"})).await;
    // There is room, and others wait for the timer.
    let late = scene.waiting_run(json!({})).await;
    let mut order: Vec<RunId> = scene.queue("all", "").await;
    assert_eq!(order.pop(), Some(late));
    while fire(&scene).await > 0 {}
    assert_eq!(scene.waits(late).await, None);
}

pub async fn a_run_that_ends_while_it_waits_leaves_its_queue(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    let live = scene.live(repo("api")).await;
    let cancelled = scene.waiting_run(repo("api")).await;
    let deleted = scene.waiting_run(repo("api")).await;
    let last = scene.waiting_run(repo("api")).await;
    let cancel = RequestCancel { tenant: acme(), run: cancelled, by: "ann".to_owned() };
    let _ = scene.store.call(cancel).await.unwrap();
    let taken = scene.taken(&acme(), cancelled).await;
    let ended = scene.commit(ending(&taken, Ending::Cancelled)).await.unwrap();
    assert_eq!(ended.granted, 0, "it held no slot");
    scene.store.call(DeleteRun { tenant: acme(), run: deleted }).await.unwrap();
    assert_eq!(scene.queue("per-repo", "api").await, [last]);
    assert_eq!(scene.usage("per-repo", "api").await, (1, 1));
    assert_eq!(scene.active(&acme()).await, 1);
    // To delete a live run frees its slot, too.
    scene.store.call(DeleteRun { tenant: acme(), run: live }).await.unwrap();
    assert_eq!(scene.waits(last).await, None);
    assert_eq!(scene.usage("per-repo", "api").await, (1, 0));
}

pub async fn a_run_that_ends_with_its_grant_passes_its_slots_on(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    let live = scene.live(repo("api")).await;
    let granted = scene.waiting_run(repo("api")).await;
    let next = scene.waiting_run(repo("api")).await;
    scene.end_run(live).await;
    // Cancelled before its first turn.
    let taken = scene.taken(&acme(), granted).await;
    assert!(matches!(taken.inbox[..], [InboxEvent::Granted { .. }]));
    let ended = scene.commit(ending(&taken, Ending::Cancelled)).await.unwrap();
    assert_eq!(ended.granted, 1);
    assert_eq!(scene.waits(next).await, None);
    assert_eq!(scene.usage("per-repo", "api").await, (1, 0));
}

pub async fn the_holders_of_a_groups_slots_are_listed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    scene.save_limit("per-repo", json!({"key": "input.repo", "max_runs": 3})).await;
    let (first, second) = (scene.live(repo("a/b")).await, scene.live(repo("a/b")).await);
    scene.live(repo("a")).await;
    let list = async |limit: &str, of: &str, most: usize| {
        let list = ListSlots { tenant: acme(), name: name(limit), group: group(of), limit: most };
        let held = scene.store.call(list).await.unwrap();
        held.into_iter().map(|slot| slot.run).collect::<Vec<_>>()
    };
    assert_eq!(list("per-repo", "a/b", 10).await, [first, second]);
    assert_eq!(list("per-repo", "a/b", 1).await, [first]);
    assert_eq!(list("tenant-runs", "", 10).await.len(), 3);
}

pub async fn queues_and_slots_survive_a_reopening(subject: &mut dyn Subject) {
    let scene = per_repo(subject).await;
    let live = scene.live(repo("api")).await;
    let waiting = scene.waiting_run(repo("api")).await;
    drop(scene);
    subject.reopen().await;
    let scene = Scene::of(subject);
    assert_eq!(scene.usage("per-repo", "api").await, (1, 1));
    assert_eq!(scene.queue("per-repo", "api").await, [waiting]);
    assert_eq!(scene.end_run(live).await, 1);
    scene.begin_granted(waiting).await;
    let taken = scene.taken(&acme(), waiting).await;
    let _ = scene.commit(idle(&taken)).await.unwrap();
}
