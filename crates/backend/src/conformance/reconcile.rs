//! What the slow loops do to a tenant that is well, and to what its time has passed over.

use crate::verbs::{
    CancelJob, DeleteRun, ExpireLeases, ExtendJobLease, FireTimers, ListExpiredLeases, ReadRun, ReadWorker,
    RepairSlots, RequestCancel, RequeueJobs, SetLimits,
};
use std::time::Duration;

use interlock_model::RunId;
use interlock_model::admission::StartOutcome;
use interlock_model::job::StaleState;
use interlock_model::limit::Limits;
use interlock_model::run::Ending;
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, ending, globex, idle, name, topic};
use crate::reconcile::{RequeuedJobs, Retire, Retired, SlotDrift};
use crate::tenants::LimitScope;

const A_DAY: Duration = Duration::from_hours(24);

fn retire(limit: usize) -> Retire {
    Retire { tenant: acme(), unused_for: A_DAY, after: None, limit }
}

pub async fn expired_leases_are_listed_until_their_jobs_are_ended(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (_, silent) = scene.working(&acme()).await;
    let (_, heard) = scene.working(&acme()).await;
    subject.elapse(LEASE / 2).await;
    let _ = scene
        .store
        .call(ExtendJobLease {
            tenant: acme(),
            job: heard.job.id.clone(),
            fence: heard.lease.fence,
            term: None,
        })
        .await
        .unwrap();
    assert_eq!(scene.store.call(ListExpiredLeases { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
    subject.elapse(LEASE * 2).await;
    let found = scene.store.call(ListExpiredLeases { tenant: acme(), limit: 10 }).await.unwrap();
    let states: Vec<_> = found.iter().map(|(job, lease)| (job.clone(), lease.stale_state())).collect();
    assert_eq!(states, [(silent.job.id, StaleState::Dispatched), (heard.job.id, StaleState::Running)]);
    assert_eq!(found[0].1, silent.lease);
    assert_eq!(scene.store.call(ListExpiredLeases { tenant: acme(), limit: 1 }).await.unwrap().len(), 1);
    assert_eq!(scene.store.call(ListExpiredLeases { tenant: globex(), limit: 10 }).await, Ok(Vec::new()));
    for left in [1, 0] {
        assert_eq!(scene.store.call(ExpireLeases { tenant: acme(), limit: 1 }).await.unwrap().len(), 1);
        let listed = scene.store.call(ListExpiredLeases { tenant: acme(), limit: 10 }).await.unwrap();
        assert_eq!(listed.len(), left);
    }
}

pub async fn requeuing_lists_waiting_jobs_and_changes_no_others(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 4).await;
    assert_eq!(
        scene.store.call(RequeueJobs { tenant: acme(), limit: 10 }).await,
        Ok(RequeuedJobs::default())
    );
    let (_, ended) = scene.working(&acme()).await;
    let _ = scene
        .store
        .call(CancelJob { tenant: acme(), job: ended.job.id.clone(), by: "a test".to_owned() })
        .await
        .unwrap();
    scene.working(&acme()).await;
    for _ in 0..2 {
        let run = scene.started(&acme()).await;
        scene.begin(&acme(), run).await;
    }
    let well = RequeuedJobs { waiting: vec![topic(); 2], put_back: Vec::new() };
    assert_eq!(scene.store.call(RequeueJobs { tenant: acme(), limit: 10 }).await.as_ref(), Ok(&well));
    assert_eq!(scene.store.call(RequeueJobs { tenant: acme(), limit: 10 }).await, Ok(well));
    assert_eq!(scene.store.call(RequeueJobs { tenant: acme(), limit: 1 }).await.unwrap().waiting.len(), 1);
    assert_eq!(scene.claim(&acme(), 10).await.len(), 2, "each waits once");
}

pub async fn slots_that_agree_with_their_runs_are_left_alone(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(scene.started(&acme()).await);
    }
    scene.begin(&acme(), runs[1]).await;
    let _ = scene
        .store
        .call(RequestCancel { tenant: acme(), run: runs[1], by: "a test".to_owned() })
        .await
        .unwrap();
    let taken = scene.taken(&acme(), runs[1]).await;
    let _ = scene.commit(ending(&taken, Ending::Cancelled)).await.unwrap();
    scene.store.call(DeleteRun { tenant: acme(), run: runs[3] }).await.unwrap();
    let mut pages: Vec<SlotDrift> = Vec::new();
    let mut after: Option<RunId> = None;
    loop {
        let page = scene.store.call(RepairSlots { tenant: acme(), after, limit: 2 }).await.unwrap();
        after = page.next;
        pages.push(page);
        if after.is_none() {
            break;
        }
    }
    let page = |next: Option<RunId>| SlotDrift { found: 0, repaired: 0, next };
    assert_eq!(pages, [page(Some(runs[2])), page(None)]);
    assert_eq!(scene.active(&acme()).await, 3);
}

pub async fn workers_and_marks_of_deleted_runs_are_retired_after_their_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    scene.claim(&acme(), 1).await;
    let (old, kept) = (scene.started(&acme()).await, scene.started(&acme()).await);
    scene.store.call(DeleteRun { tenant: acme(), run: old }).await.unwrap();
    assert_eq!(scene.store.call(retire(10)).await, Ok(Retired::default()));
    subject.elapse(A_DAY + Duration::from_secs(1)).await;
    let day = Retired { workers: 1, deleted_runs: 1, ..Retired::default() };
    assert_eq!(scene.store.call(retire(10)).await, Ok(day));
    assert_eq!(scene.store.call(retire(10)).await, Ok(Retired::default()));
    assert_eq!(scene.store.call(ReadWorker { tenant: acme(), worker: name("worker-1") }).await, Ok(None));
    assert!(scene.store.call(ReadRun { tenant: acme(), run: kept }).await.unwrap().is_some());
}

pub async fn a_key_is_retired_only_when_its_time_is_over(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 4).await;
    let retention = |time| Limits { runs_max: Some(4), key_retention: time, ..Limits::default() };
    let scope = LimitScope::Tenant(acme());
    scene
        .store
        .call(SetLimits {
            scope: scope.clone(),
            limits: retention(Some(Duration::from_secs(10))),
            keeps_quotas: false,
        })
        .await
        .unwrap();
    let _ = scene.admit(scene.request(&acme(), Some("short"), json!({"n": 1}))).await;
    scene
        .store
        .call(SetLimits { scope: scope.clone(), limits: retention(None), keeps_quotas: false })
        .await
        .unwrap();
    let kept = scene.admit(scene.request(&acme(), Some("kept"), json!({"n": 1}))).await;
    let StartOutcome::Admitted { run: kept, .. } = kept else { panic!("not admitted: {kept:?}") };
    subject.elapse(Duration::from_secs(11)).await;
    // On Redis a key ends by itself, so that there is nothing to be removed.
    let mut after = None;
    loop {
        let asked = Retire { after, ..retire(1) };
        let retired = scene.store.call(asked).await.unwrap();
        after = retired.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(scene.store.call(retire(10)).await.unwrap().keys, 0);
    let again = scene.admit(scene.request(&acme(), Some("kept"), json!({"n": 1}))).await;
    assert!(matches!(again, StartOutcome::Replayed { run, .. } if run == kept), "{again:?}");
    let fresh = scene.admit(scene.request(&acme(), Some("short"), json!({"n": 2}))).await;
    assert!(matches!(fresh, StartOutcome::Admitted { .. }), "{fresh:?}");
}

pub async fn a_timer_that_a_turn_takes_back_does_not_fire(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.timed(&acme(), Duration::from_millis(600)).await;
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    let mut turn = idle(&scene.taken(&acme(), run).await);
    turn.head.due_at = None;
    let _ = scene.commit(turn).await.unwrap();
    subject.elapse(Duration::from_millis(700)).await;
    assert_eq!(
        scene.store.call(FireTimers { tenant: acme(), ahead: Duration::ZERO, limit: 10 }).await,
        Ok(0)
    );
}
