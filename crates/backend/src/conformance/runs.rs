//! Who may advance a run, and what a commit does.

use crate::verbs::{
    AcquireReadyRuns, AcquireRun, Commit, DeleteRun, ExtendJobLease, ExtendRunLease, FindDue, ListActiveRuns,
    ListRuns, ReadJob, ReadRun, ReadRunOwnership, ReadRunStatuses, ReadTimeline, RecordResult, ReleaseRun,
    RequestCancel,
};
use std::time::Duration;

use interlock_model::history::{Event, EventKind};
use interlock_model::run::{Ending, InboxEvent, RunStatus};
use interlock_model::trace::TraceParent;
use interlock_model::{Fence, RunId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, ending, globex, holder, idle, new_job, running, with_request};
use crate::jobs::Heartbeat;
use crate::runs::{CancelOutcome, RunFilter, RunHolder};
use crate::{PageRequest, StoreError};

fn is_fenced<T: std::fmt::Debug>(answer: &Result<T, StoreError>, held: Fence) -> bool {
    matches!(answer, Err(StoreError::Fenced { held: fence, .. }) if *fence == held)
}

pub async fn an_acquired_run_has_one_holder_until_its_lease_ends(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let first = scene
        .store
        .call(AcquireReadyRuns { tenant: acme(), holder: holder(), lease: LEASE, limit: 10 })
        .await
        .unwrap();
    assert_eq!(first.runs.iter().map(|taken| taken.start.run).collect::<Vec<_>>(), [run]);
    assert_eq!(scene.take(&acme(), run).await, None);
    assert!(
        scene
            .store
            .call(AcquireReadyRuns { tenant: acme(), holder: holder(), lease: LEASE, limit: 10 })
            .await
            .unwrap()
            .runs
            .is_empty()
    );
    subject.elapse(LEASE * 2).await;
    let second = scene.taken(&acme(), run).await;
    assert!(second.fence > first.runs[0].fence);
}

pub async fn the_holder_of_a_run_is_shown_while_its_lease_lasts(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let standing = async || scene.store.call(ReadRunOwnership { tenant: acme(), run }).await.unwrap();
    let before = standing().await;
    assert!(before.is_ready && before.holder.is_none(), "{before:?}");
    let taken = scene.taken(&acme(), run).await;
    let during = standing().await;
    let expected = RunHolder { instance: Some(holder()), until: Some(taken.now + LEASE) };
    assert_eq!((during.is_ready, during.holder), (true, Some(expected)));
    let _ = scene.commit(running(&taken)).await.unwrap();
    let after = standing().await;
    assert!(!after.is_ready && after.holder.is_none(), "{after:?}");
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    scene.taken(&acme(), run).await;
    subject.elapse(LEASE).await;
    let late = standing().await;
    assert!(late.is_ready && late.holder.is_none(), "an expired lease has no holder: {late:?}");
    let nothing =
        scene.store.call(ReadRunOwnership { tenant: acme(), run: scene.fresh_run() }).await.unwrap();
    assert!(!nothing.is_ready && nothing.holder.is_none());
}

pub async fn the_statuses_of_many_runs_are_read_at_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let (first, second) = (scene.started(&acme()).await, scene.started(&acme()).await);
    let absent = scene.fresh_run();
    let foreign = scene.started(&globex()).await;
    let read = async || {
        let runs = vec![second, absent, foreign, first];
        scene.store.call(ReadRunStatuses { tenant: acme(), runs }).await.unwrap()
    };
    assert_eq!(read().await, [(second, RunStatus::Pending), (first, RunStatus::Pending)]);
    let taken = scene.taken(&acme(), second).await;
    let _ = scene.commit(ending(&taken, Ending::Succeeded)).await.unwrap();
    assert_eq!(read().await, [(second, RunStatus::Succeeded), (first, RunStatus::Pending)]);
    scene.store.call(DeleteRun { tenant: acme(), run: second }).await.unwrap();
    assert_eq!(read().await, [(first, RunStatus::Pending)]);
    assert!(scene.store.call(ReadRunStatuses { tenant: acme(), runs: Vec::new() }).await.unwrap().is_empty());
}

pub async fn the_span_that_a_run_was_started_in_stays_with_it_and_its_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let parent = Some(TraceParent { trace: u128::MAX, span: 7, is_sampled: true });
    let start = with_request(scene.request(&acme(), None, json!({})), |request| request.trace = parent);
    let run = start.request.run;
    let _ = scene.admit(start).await;
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(taken.start.trace, parent);
    let mut turn = running(&taken);
    turn.dispatched[0].trace = parent;
    let _ = scene.commit(turn).await.expect("the turn is in time");
    assert_eq!(scene.claim(&acme(), 1).await[0].job.trace, parent);
}

pub async fn a_commit_under_a_stale_fence_is_rejected(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let stale = scene.taken(&acme(), run).await;
    subject.elapse(LEASE * 2).await;
    let fresh = scene.taken(&acme(), run).await;
    let refused = scene.commit(running(&stale)).await;
    assert_eq!(refused, Err(StoreError::Fenced { held: stale.fence, current: fresh.fence }));
    let _ = scene.commit(running(&fresh)).await.expect("the latest holder may write");
    assert!(is_fenced(&scene.commit(running(&stale)).await, stale.fence));
}

pub async fn a_commit_is_accepted_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let turn = running(&scene.taken(&acme(), run).await);
    let committed = scene.commit(turn.clone()).await.unwrap();
    assert_eq!((committed.has_more, committed.version), (false, 1));
    assert!(is_fenced(&scene.commit(turn.clone()).await, turn.fence));
    // Also at the version that it wrote: the run is no longer held under its fence.
    let late = Commit { version: committed.version, ..turn };
    assert!(is_fenced(&scene.commit(late.clone()).await, late.fence));
    assert_eq!(scene.claim(&acme(), 10).await.len(), 1);
}

pub async fn a_commit_at_a_stale_version_is_rejected(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    scene.begin(&acme(), run).await;
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    let mut turn = idle(&scene.taken(&acme(), run).await);
    turn.version = 0;
    assert!(is_fenced(&scene.commit(turn.clone()).await, turn.fence));
}

pub async fn a_run_that_ends_releases_its_slot_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (run, other) = (scene.started(&acme()).await, scene.started(&acme()).await);
    let turn = ending(&scene.taken(&acme(), run).await, Ending::Failed);
    let _ = scene.commit(turn.clone()).await.unwrap();
    assert_eq!(scene.active(&acme()).await, 1);
    assert!(is_fenced(&scene.commit(turn.clone()).await, turn.fence));
    scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    assert_eq!(scene.active(&acme()).await, 1);
    assert_eq!(scene.store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await.unwrap(), [other]);
}

pub async fn what_comes_during_a_turn_is_left_for_the_next(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    assert!(taken.inbox.is_empty());
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    assert!(scene.commit(running(&taken)).await.unwrap().has_more);
    let next = scene.taken(&acme(), run).await;
    assert_eq!(next.inbox, [InboxEvent::Cancel { by: "a test".to_owned() }]);
    assert!(!scene.commit(idle(&next)).await.unwrap().has_more);
    assert_eq!(scene.take(&acme(), run).await, None);
}

pub async fn a_run_lease_can_be_extended_and_a_lost_one_cannot(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    subject.elapse(LEASE.saturating_sub(Duration::from_millis(1))).await;
    scene.store.call(ExtendRunLease { tenant: acme(), run, fence: taken.fence, lease: LEASE }).await.unwrap();
    subject.elapse(LEASE.saturating_sub(Duration::from_millis(1))).await;
    assert!(scene.take(&acme(), run).await.is_none(), "it is kept");
    subject.elapse(Duration::from_millis(1)).await;
    let late =
        scene.store.call(ExtendRunLease { tenant: acme(), run, fence: taken.fence, lease: LEASE }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: taken.fence, current: taken.fence }));
    let next = scene.taken(&acme(), run).await;
    let late =
        scene.store.call(ExtendRunLease { tenant: acme(), run, fence: taken.fence, lease: LEASE }).await;
    assert_eq!(late, Err(StoreError::Fenced { held: taken.fence, current: next.fence }));
    let _ = scene.commit(idle(&next)).await.unwrap();
    let done =
        scene.store.call(ExtendRunLease { tenant: acme(), run, fence: next.fence, lease: LEASE }).await;
    assert_eq!(done, Err(StoreError::Fenced { held: next.fence, current: next.fence }), "it was let go of");
    let nowhere = scene
        .store
        .call(ExtendRunLease { tenant: acme(), run: scene.fresh_run(), fence: next.fence, lease: LEASE })
        .await;
    assert!(matches!(nowhere, Err(StoreError::NotFound { .. })), "{nowhere:?}");
}

pub async fn a_released_run_can_be_acquired_by_others(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    // Another holder's fence ends nothing.
    scene.store.call(ReleaseRun { tenant: acme(), run, fence: Fence::new(1) }).await.unwrap();
    assert_eq!(scene.take(&acme(), run).await, None);
    scene.store.call(ReleaseRun { tenant: acme(), run, fence: taken.fence }).await.unwrap();
    let next = scene.taken(&acme(), run).await;
    assert!(next.fence > taken.fence);
    assert!(is_fenced(&scene.commit(running(&taken)).await, taken.fence));
}

pub async fn a_run_that_ends_raises_the_fence_of_its_open_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    let turn = ending(&scene.taken(&acme(), run).await, Ending::Cancelled);
    let _ = scene.commit(turn).await.unwrap();
    let outcome = interlock_model::job::JobOutcome::completed(serde_json::json!(1));
    let refused =
        scene.store.call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome, edge: None }).await;
    assert!(matches!(refused, Err(StoreError::Fenced { current, .. }) if current > fence), "{refused:?}");
    assert_eq!(
        scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await,
        Ok(Heartbeat::CancelRequested)
    );
    assert!(scene.store.call(FindDue { limit: 10 }).await.unwrap().ready.is_empty());
}

pub async fn deleting_a_live_run_frees_its_slot_and_its_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    assert_eq!(scene.active(&acme()).await, 0);
    assert_eq!(scene.store.call(ReadRun { tenant: acme(), run }).await, Ok(None));
    let answer = scene
        .store
        .call(ExtendJobLease {
            tenant: acme(),
            job: claimed.job.id.clone(),
            fence: claimed.lease.fence,
            term: None,
        })
        .await;
    assert!(matches!(answer, Err(StoreError::NotFound { .. })), "{answer:?}");
    subject.elapse(LEASE * 2).await;
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.ready.is_empty() && due.leases.is_empty(), "{due:?}");
    assert!(matches!(
        scene.store.call(DeleteRun { tenant: acme(), run }).await,
        Err(StoreError::NotFound { .. })
    ));
}

pub async fn deleting_a_run_names_its_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    scene.working(&acme()).await;
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = (1..=3).map(|attempt| new_job(run, attempt)).collect();
    let mut jobs: Vec<_> = turn.dispatched.iter().map(|job| job.id.clone()).collect();
    let _ = scene.commit(turn).await.unwrap();
    // One that has ended, one that is held, one that waits.
    let claimed = scene.claim(&acme(), 2).await;
    let outcome = interlock_model::job::JobOutcome::completed(serde_json::json!(1));
    let (job, fence) = (&claimed[0].job.id, claimed[0].lease.fence);
    let _ = scene
        .store
        .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome, edge: None })
        .await
        .unwrap();
    let mut named = scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    named.sort();
    jobs.sort();
    assert_eq!(named, jobs);
    for job in &jobs {
        assert_eq!(scene.store.call(ReadJob { tenant: acme(), job: job.clone() }).await, Ok(None));
    }
    let without_jobs = scene.started(&acme()).await;
    assert_eq!(scene.store.call(DeleteRun { tenant: acme(), run: without_jobs }).await, Ok(Vec::new()));
}

pub async fn cancelling_is_posted_once_and_refused_for_nothing(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    assert_eq!(
        scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await,
        Ok(CancelOutcome::Posted)
    );
    let turn = ending(&scene.taken(&acme(), run).await, Ending::Cancelled);
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(
        scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await,
        Ok(CancelOutcome::AlreadyEnded)
    );
    let unknown: RunId = scene.fresh_run();
    let answer =
        scene.store.call(RequestCancel { tenant: acme(), run: unknown, by: "a test".to_owned() }).await;
    assert!(matches!(answer, Err(StoreError::NotFound { .. })));
}

pub async fn another_tenants_run_is_not_there(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    assert_eq!(scene.store.call(ReadRun { tenant: globex(), run }).await, Ok(None));
    assert_eq!(scene.take(&globex(), run).await, None);
    assert!(matches!(
        scene.store.call(DeleteRun { tenant: globex(), run }).await,
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        scene.store.call(ReadTimeline { tenant: globex(), run, after: 0, limit: 10 }).await,
        Err(StoreError::NotFound { .. })
    ));
}

pub async fn runs_are_listed_newest_first_page_by_page(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(scene.started(&acme()).await);
    }
    let turn = ending(&scene.taken(&acme(), runs[1]).await, Ending::Failed);
    let _ = scene.commit(turn).await.unwrap();
    runs.reverse();
    let all = RunFilter::default();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = scene
            .store
            .call(ListRuns { tenant: acme(), filter: all.clone(), page: PageRequest { limit: 2, after } })
            .await
            .unwrap();
        assert!(page.items.len() <= 2);
        listed.extend(page.items.iter().map(|run| run.start.run));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, runs);
    let failed = RunFilter { status: Some(RunStatus::Failed), ..RunFilter::default() };
    let page = scene
        .store
        .call(ListRuns {
            tenant: acme(),
            filter: failed.clone(),
            page: PageRequest { limit: 10, after: None },
        })
        .await
        .unwrap();
    assert_eq!(page.items.iter().map(|run| run.start.run).collect::<Vec<_>>(), [runs[3]]);
    let other = RunFilter { workflow: Some(super::scene::name("other")), ..RunFilter::default() };
    let page = scene
        .store
        .call(ListRuns {
            tenant: acme(),
            filter: other.clone(),
            page: PageRequest { limit: 10, after: None },
        })
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.next), (0, None));
}

pub async fn the_timeline_has_no_gaps(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    let mut turn = running(&taken);
    turn.events = vec![Event::new(taken.now, EventKind::StepDispatched); 12];
    let _ = scene.commit(turn).await.unwrap();
    let events = scene.store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 }).await.unwrap();
    assert_eq!(events.iter().map(|event| event.sequence).collect::<Vec<_>>(), (1..=13).collect::<Vec<_>>());
    let tail = scene.store.call(ReadTimeline { tenant: acme(), run, after: 9, limit: 2 }).await.unwrap();
    assert_eq!(tail.iter().map(|event| event.sequence).collect::<Vec<_>>(), [10, 11]);
}

pub async fn what_was_acknowledged_survives_a_reopening(subject: &mut dyn Subject) {
    let (run, fence) = {
        let scene = Scene::with_cap(subject, 1).await;
        let run = scene.started(&acme()).await;
        (run, scene.taken(&acme(), run).await.fence)
    };
    subject.reopen().await;
    subject.elapse(LEASE * 2).await;
    let store = subject.store();
    assert_eq!(store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await.unwrap(), [run]);
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: holder(), lease: LEASE })
        .await
        .unwrap()
        .expect("the run waits");
    assert!(taken.fence > fence, "fences grow over a reopening");
}
