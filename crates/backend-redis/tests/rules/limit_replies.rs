//! A change of a limit, or of a queue, whose reply was lost is done once.

use std::sync::Arc;

use interlock_backend::limits::LimitChange;
use interlock_backend::verbs::{
    AcquireRun, Admit, DeleteLimit, ListLimits, ListQueuedRuns, MoveQueuedRun, PauseLimit, ReadUsage,
    SaveLimit, SetLimits,
};
use interlock_backend::{Effect, PageRequest, Store, StoreError};
use interlock_model::admission::StartOutcome;
use interlock_model::limit::document::{OnFull, Pause};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::limit::{GroupKey, Limits};
use interlock_model::run::RunStatus;
use interlock_model::{RunId, Timestamp};
use serde_json::json;

use interlock_backend::runs::Commit;
use interlock_backend::tenants::LimitScope;

use super::lost_replies::Scene;
use super::{LEASE, acme, idle, name, request, started};

/// One run at a time, the others wait.
fn save(limit: &str, book: u64) -> SaveLimit {
    let document = json!({"max_runs": 1, "on_full": "queue"});
    let document = serde_json::from_value(document).unwrap();
    SaveLimit { tenant: acme(), name: name(limit), document, book, replaces: None }
}

/// A start that counts in that limit.
pub(crate) fn counted(number: u64, limit: &str, revision: u64) -> Admit {
    let mut start = request(number, false);
    let plan = Arc::make_mut(start.plan.as_mut().unwrap());
    plan.limits_revision = revision;
    plan.claims = vec![SlotClaim { limit: name(limit), group: GroupKey::default() }];
    start
}

async fn queue(store: &Store, limit: &str) -> Vec<RunId> {
    let page = PageRequest { limit: 10, after: None };
    let list = ListQueuedRuns { tenant: acme(), name: name(limit), group: GroupKey::default(), page };
    store.call(list).await.unwrap().items.into_iter().map(|queued| queued.run).collect()
}

/// A run that is live in the limit, and others that wait for it.
async fn waiting(store: &Store, limit: &str, count: u64) -> (RunId, Vec<RunId>) {
    // The workflow is saved with the first run; it counts in no limit.
    started(store, 100, false).await;
    store.call(save(limit, 0)).await.unwrap();
    let StartOutcome::Admitted { run: live, .. } = store.call(counted(1, limit, 1)).await.unwrap() else {
        panic!("nothing is full")
    };
    let mut waiting = Vec::new();
    for number in 0..count {
        let outcome = store.call(counted(2 + number, limit, 1)).await.unwrap();
        let StartOutcome::Queued { run, .. } = outcome else { panic!("it must wait: {outcome:?}") };
        waiting.push(run);
    }
    (live, waiting)
}

async fn revision(store: &Store) -> u64 {
    store.call(ListLimits { tenant: acme() }).await.unwrap().revision
}

#[tokio::test]
async fn a_limit_whose_reply_was_lost_is_saved_once() {
    let scene = Scene::new().await;
    scene.lose_reply_to("per-repo");
    let saved = scene.store.call(save("per-repo", 0)).await;
    assert_eq!(saved, Ok(LimitChange::Done { revision: 1, granted: 0 }));
    assert_eq!(revision(&scene.store).await, 1);
}

#[tokio::test]
async fn a_limit_whose_reply_was_lost_is_deleted_once() {
    let scene = Scene::new().await;
    let (_, waiting) = waiting(&scene.store, "per-repo", 2).await;
    scene.lose_reply_to("per-repo");
    let delete = DeleteLimit { tenant: acme(), name: name("per-repo"), replaces: None };
    assert_eq!(scene.store.call(delete).await, Ok(LimitChange::Done { revision: 2, granted: 2 }));
    assert_eq!(revision(&scene.store).await, 2);
    assert_eq!(waiting.len(), 2);
    assert!(queue(&scene.store, "per-repo").await.is_empty());
}

#[tokio::test]
async fn a_limit_whose_reply_was_lost_is_paused_once() {
    let scene = Scene::new().await;
    scene.store.call(save("per-repo", 0)).await.unwrap();
    scene.lose_reply_to("per-repo");
    let pause = Some(Pause { by: "ops".to_owned(), at: Timestamp::ZERO, reason: None });
    let paused = scene.store.call(PauseLimit { tenant: acme(), name: name("per-repo"), pause }).await;
    assert_eq!(paused, Ok(LimitChange::Done { revision: 2, granted: 0 }));
    assert_eq!(revision(&scene.store).await, 2);
}

#[tokio::test]
async fn a_run_whose_reply_was_lost_is_moved_once() {
    let scene = Scene::new().await;
    let (_, waiting) = waiting(&scene.store, "per-repo", 3).await;
    scene.lose_reply_to(&waiting[2].to_string());
    let move_it = MoveQueuedRun { tenant: acme(), run: waiting[2], to_front: true };
    assert_eq!(scene.store.call(move_it).await, Ok(true));
    assert_eq!(queue(&scene.store, "per-repo").await, [waiting[2], waiting[0], waiting[1]]);
}

#[tokio::test]
async fn a_start_whose_reply_was_lost_waits_once_and_keeps_its_place() {
    let scene = Scene::new().await;
    let (_, mut queued) = waiting(&scene.store, "per-repo", 1).await;
    let start = counted(9, "per-repo", 1);
    scene.lose_reply_to(&start.request.run.to_string());
    let lost = scene.store.call(start.clone()).await;
    assert!(matches!(lost, Err(StoreError::Unavailable { effect: Effect::Unknown, .. })), "{lost:?}");
    let again = scene.store.call(Admit { is_repeat: true, ..start.clone() }).await.unwrap();
    let StartOutcome::Queued { run, position, .. } = again else { panic!("it waits: {again:?}") };
    assert_eq!((run, position), (start.request.run, Some(2)));
    queued.push(run);
    assert_eq!(queue(&scene.store, "per-repo").await, queued);
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_grants_once_and_says_so() {
    let scene = Scene::new().await;
    let (live, waiting) = waiting(&scene.store, "per-repo", 2).await;
    let acquire = AcquireRun { tenant: acme(), run: live, holder: name("engine-7"), lease: LEASE };
    let taken = scene.store.call(acquire).await.unwrap().unwrap();
    let mut end = idle(&taken);
    end.head.status = RunStatus::Succeeded;
    let before = scene.store.call(ReadUsage { tenant: acme() }).await.unwrap();
    scene.lose_reply_to(&taken.fence.to_string());
    let committed = scene.store.call(Commit { ..end }).await.unwrap();
    assert_eq!(committed.granted, 1);
    assert_eq!(queue(&scene.store, "per-repo").await, waiting[1..]);
    assert_eq!(scene.store.call(ReadUsage { tenant: acme() }).await, Ok(before));
}

#[tokio::test]
async fn a_cap_whose_reply_was_lost_is_raised_once() {
    let scene = Scene::new().await;
    started(&scene.store, 100, false).await;
    let cap = |runs_max| {
        let limits = Limits { runs_max: Some(runs_max), on_full: Some(OnFull::Queue), ..Limits::default() };
        SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false }
    };
    let revision = scene.store.call(cap(1)).await.unwrap();
    for number in 1..4 {
        let start = request(number, false);
        assert!(matches!(scene.store.call(start).await, Ok(StartOutcome::Queued { .. })));
    }
    scene.lose_reply_to("queue_order");
    assert_eq!(scene.store.call(cap(3)).await, Ok(revision + 1));
    assert_eq!(scene.store.call(ReadUsage { tenant: acme() }).await.unwrap().runs_active, 3);
    assert_eq!(queue(&scene.store, "tenant-runs").await.len(), 1);
}
