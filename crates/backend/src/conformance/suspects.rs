//! A run whose turns are abandoned is tried alone, and quarantined after too many of them.

use interlock_model::job::JobOutcome;
use interlock_model::run::{Ending, InboxEvent, Quarantine, RunStatus, SUSPECT_FROM};
use interlock_model::{Fence, RunId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, ending, holder, idle, running};
use crate::StoreError;
use crate::dead_letters::DeadLetterRetry;
use crate::deliveries::{DeliverResult, DeliveryOutcome};
use crate::jobs::LeaseTerm;
use crate::runs::{CancelOutcome, ReadyRuns};
use crate::suspects::SuspectOutcome;
use crate::verbs::{
    AcquireReadyRuns, BeginTry, CancelJob, DeleteRun, ExtendJobLease, FindDue, ReadDeadLetter, ReadRun,
    ReadRunOwnership, RecordResult, ReleaseRun, RequestCancel, RetryDeadLetter,
};

impl Scene {
    async fn ready_runs(&self) -> ReadyRuns {
        let acquire = AcquireReadyRuns { tenant: acme(), holder: holder(), lease: LEASE, limit: 10 };
        self.store.call(acquire).await.unwrap()
    }

    async fn cancel(&self, run: RunId) {
        let cancel = RequestCancel { tenant: acme(), run, by: "a test".to_owned() };
        assert_eq!(self.store.call(cancel).await, Ok(CancelOutcome::Posted));
    }

    async fn letter_of(&self, run: RunId) -> Option<interlock_model::dead_letter::DeadLetter> {
        let read = ReadDeadLetter { tenant: acme(), job: Quarantine::letter_id(run) };
        self.store.call(read).await.unwrap()
    }

    async fn is_due(&self) -> bool {
        !self.store.call(FindDue { limit: 10 }).await.unwrap().ready.is_empty()
    }
}

/// Abandons turns of a ready run until it is a suspect.
async fn make_suspect(scene: &Scene, subject: &dyn Subject, run: RunId) {
    for _ in 0..SUSPECT_FROM {
        scene.taken(&acme(), run).await;
        subject.elapse(LEASE).await;
    }
}

/// Abandons the turns of a ready run until it is quarantined. Returns the fence of the last.
async fn quarantine(scene: &Scene, subject: &dyn Subject, run: RunId) -> Fence {
    make_suspect(scene, subject, run).await;
    scene.tried(&acme()).await;
    subject.elapse(LEASE).await;
    let last = scene.tried(&acme()).await;
    subject.elapse(LEASE).await;
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Quarantined(run));
    last.fence
}

pub async fn a_run_whose_leases_expire_is_acquired_only_as_a_suspect(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let run = scene.started(&acme()).await;
    scene.taken(&acme(), run).await;
    subject.elapse(LEASE).await;
    let read = ReadRunOwnership { tenant: acme(), run };
    assert_eq!(scene.store.call(read.clone()).await.unwrap().abandoned, 1);
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing, "once happens to any run");
    let abandoned = scene.taken(&acme(), run).await;
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing, "its holder may be at it");
    subject.elapse(LEASE).await;
    let other = scene.started(&acme()).await;
    let ready = scene.ready_runs().await;
    assert_eq!(ready.runs.iter().map(|acquired| acquired.start.run).collect::<Vec<_>>(), [other]);
    assert!(ready.has_suspects);
    assert_eq!(scene.take(&acme(), run).await, None);
    assert_eq!(scene.store.call(read.clone()).await.unwrap().abandoned, 2);
    let tried = scene.tried(&acme()).await;
    assert_eq!((tried.start.run, tried.fence > abandoned.fence), (run, true));
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing, "the other run is none");
    assert!(!scene.ready_runs().await.has_suspects, "while it is tried, it is held");
    subject.elapse(LEASE).await;
    assert_eq!(scene.store.call(read).await.unwrap().abandoned, 3);
}

pub async fn a_suspect_that_was_not_computed_has_not_been_tried(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    make_suspect(&scene, subject, run).await;
    let mut fence = Fence::NONE;
    for _ in 0..6 {
        let SuspectOutcome::Acquired(suspect) = scene.suspect(&acme()).await else { panic!("not a suspect") };
        assert_eq!((suspect.run.start.run, suspect.tries), (run, SUSPECT_FROM));
        fence = suspect.run.fence;
        subject.elapse(LEASE).await;
    }
    let begin = |fence, run| BeginTry { tenant: acme(), run, fence, lease: LEASE, number: 3 };
    let late = scene.store.call(begin(fence, run)).await;
    assert_eq!(late, Err(StoreError::Fenced { held: fence, current: fence }), "the lease has ended");
    let missing = scene.store.call(begin(fence, scene.fresh_run())).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
    let tried = scene.tried(&acme()).await;
    // A holder whose answer was lost says it again.
    scene.store.call(begin(tried.fence, run)).await.unwrap();
    subject.elapse(LEASE).await;
    let abandoned = scene.store.call(ReadRunOwnership { tenant: acme(), run }).await.unwrap().abandoned;
    assert_eq!(abandoned, 3);
}

pub async fn a_try_that_begins_has_the_whole_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    make_suspect(&scene, subject, run).await;
    let SuspectOutcome::Acquired(suspect) = scene.suspect(&acme()).await else { panic!("not a suspect") };
    subject.elapse(LEASE / 2).await;
    let begin = BeginTry { tenant: acme(), run, fence: suspect.run.fence, lease: LEASE, number: 3 };
    scene.store.call(begin).await.unwrap();
    subject.elapse(LEASE / 2).await;
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing, "it is held");
    let _ = scene.commit(running(&suspect.run)).await.expect("the turn is in time");
}

pub async fn a_commit_and_a_release_end_the_suspicion(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    make_suspect(&scene, subject, run).await;
    let tried = scene.tried(&acme()).await;
    scene.store.call(ReleaseRun { tenant: acme(), run, fence: tried.fence }).await.unwrap();
    let abandoned =
        async || scene.store.call(ReadRunOwnership { tenant: acme(), run }).await.unwrap().abandoned;
    assert_eq!(abandoned().await, 0);
    scene.taken(&acme(), run).await;
    subject.elapse(LEASE).await;
    assert_eq!(abandoned().await, 1, "it counts from the first again");
    scene.taken(&acme(), run).await;
    subject.elapse(LEASE).await;
    let _ = scene.commit(running(&scene.tried(&acme()).await)).await.unwrap();
    assert_eq!(abandoned().await, 0);
    scene.cancel(run).await;
    scene.taken(&acme(), run).await;
    subject.elapse(LEASE).await;
    assert_eq!(abandoned().await, 1);
}

pub async fn the_result_of_a_suspect_waits_for_its_try(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let (job, fence) = (claimed.job.id.clone(), claimed.lease.fence);
    let term = Some(LeaseTerm::For(LEASE * 10));
    let _ = scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term }).await.unwrap();
    scene.cancel(run).await;
    make_suspect(&scene, subject, run).await;
    let outcome = JobOutcome::completed(json!("late"));
    let report =
        DeliverResult { tenant: acme(), job, fence, outcome, edge: None, holder: holder(), lease: LEASE };
    assert_eq!(scene.store.call(report.clone()).await, Ok(DeliveryOutcome::Posted));
    assert_eq!(scene.store.call(report).await, Ok(DeliveryOutcome::AlreadyRecorded));
    assert_eq!(scene.tried(&acme()).await.inbox.len(), 2);
}

pub async fn a_run_is_quarantined_after_too_many_abandoned_turns(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let run = scene.started(&acme()).await;
    let last = quarantine(&scene, subject, run).await;
    let found = scene.store.call(ReadRunOwnership { tenant: acme(), run }).await.unwrap();
    let quarantine = Quarantine { since: found.now, tries: 4 };
    assert_eq!((found.quarantine, found.is_ready, found.holder), (Some(quarantine), false, None));
    assert_eq!(scene.letter_of(run).await, Some(quarantine.letter(run)));
    assert_eq!(scene.active(&acme()).await, 1, "it keeps its slot");
    assert_eq!(scene.take(&acme(), run).await, None);
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing);
    assert!(!scene.is_due().await, "nothing looks for it again and again");
    // The last holder was only slow.
    let mut late = running(&scene.taken(&acme(), scene.started(&acme()).await).await);
    (late.run, late.fence) = (run, last);
    assert!(matches!(scene.commit(late).await, Err(StoreError::Fenced { held, .. }) if held == last));
    drop(scene);
    subject.reopen().await;
    let kept = subject.store().call(ReadRunOwnership { tenant: acme(), run }).await.unwrap();
    assert_eq!(kept.quarantine, Some(quarantine));
}

pub async fn nothing_that_comes_for_a_quarantined_run_makes_it_ready(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    // Something to take into account, so that it can be acquired.
    scene.cancel(run).await;
    quarantine(&scene, subject, run).await;
    let cancel = CancelJob { tenant: acme(), job: claimed.job.id.clone(), by: "a test".to_owned() };
    let _ = scene.store.call(cancel).await.unwrap();
    for _ in 0..2 {
        let ready = scene.ready_runs().await;
        assert_eq!((ready.runs.len(), ready.has_suspects), (0, false));
        assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing);
        assert!(!scene.is_due().await, "the first look has cleared the mark");
    }
    let retry = RetryDeadLetter { tenant: acme(), job: Quarantine::letter_id(run), by: "a test".to_owned() };
    assert_eq!(scene.store.call(retry).await, Ok(DeadLetterRetry::Posted));
    assert_eq!(scene.tried(&acme()).await.inbox.len(), 2, "what came meanwhile has waited");
}

pub async fn a_retried_quarantined_run_is_tried_again_alone(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    quarantine(&scene, subject, run).await;
    let retry = RetryDeadLetter { tenant: acme(), job: Quarantine::letter_id(run), by: "a test".to_owned() };
    assert_eq!(scene.store.call(retry.clone()).await, Ok(DeadLetterRetry::Posted));
    assert!(matches!(scene.store.call(retry).await, Err(StoreError::NotFound { .. })));
    assert_eq!(scene.letter_of(run).await, None);
    assert!(scene.is_due().await);
    assert_eq!(scene.take(&acme(), run).await, None, "it is still tried alone");
    for _ in SUSPECT_FROM..4 {
        assert_eq!(scene.tried(&acme()).await.start.run, run);
        subject.elapse(LEASE).await;
    }
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Quarantined(run));
    assert_eq!(scene.letter_of(run).await.map(|letter| letter.attempts), Some(4));
}

pub async fn a_quarantined_run_is_acquired_to_be_cancelled_and_for_nothing_else(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let outcome = JobOutcome::completed(json!("poison"));
    let (job, fence) = (claimed.job.id.clone(), claimed.lease.fence);
    let report = RecordResult { tenant: acme(), job, fence, outcome, edge: None };
    let _ = scene.store.call(report).await.unwrap();
    quarantine(&scene, subject, run).await;
    let cancel = [InboxEvent::Cancel { by: "a test".to_owned() }];
    scene.cancel(run).await;
    assert!(scene.ready_runs().await.has_suspects);
    assert_eq!(scene.take(&acme(), run).await, None);
    // The first answer is lost; then the holder does not survive even that; then it could not write.
    let _ = scene.suspect(&acme()).await;
    subject.elapse(LEASE).await;
    assert_eq!(scene.tried(&acme()).await.inbox, cancel, "and not what it did not survive");
    subject.elapse(LEASE).await;
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing, "one try for a request");
    assert!(scene.letter_of(run).await.is_some());
    scene.cancel(run).await;
    let SuspectOutcome::Acquired(released) = scene.suspect(&acme()).await else { panic!("not acquired") };
    scene.store.call(ReleaseRun { tenant: acme(), run, fence: released.run.fence }).await.unwrap();
    let acquired = scene.tried(&acme()).await;
    assert_eq!(acquired.inbox, cancel);
    let committed = scene.commit(ending(&acquired, Ending::Cancelled)).await.unwrap();
    assert!(!committed.has_more, "all that waited goes with it");
    assert_eq!((scene.active(&acme()).await, scene.letter_of(run).await), (0, None));
    let ended = scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap().unwrap();
    assert_eq!(ended.head.status, RunStatus::Cancelled);
    let found = scene.store.call(ReadRunOwnership { tenant: acme(), run }).await.unwrap();
    assert_eq!((found.quarantine, found.abandoned, found.is_ready), (None, 0, false));
}

pub async fn a_deleted_run_takes_its_quarantine_with_it(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    quarantine(&scene, subject, run).await;
    scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    assert_eq!((scene.active(&acme()).await, scene.letter_of(run).await), (0, None));
    assert_eq!(scene.suspect(&acme()).await, SuspectOutcome::Nothing);
    let next = scene.started(&acme()).await;
    let _ = scene.commit(idle(&scene.taken(&acme(), next).await)).await.unwrap();
}
