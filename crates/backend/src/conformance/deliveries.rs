//! Results under the lease of their run: recorded by acquiring it, or deferred and delivered again.

use crate::verbs::{
    AcquireDeferredResults, ExtendJobLease, ReadJob, RecordResult, ReleaseRun, RequestCancel,
};
use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::run::InboxEvent;
use interlock_model::{Fence, JobId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, globex, idle, name, new_job, outcomes, running};
use crate::StoreError;
use crate::deliveries::{DeferOutcome, DeferResult, DeferredResult, DeliverResult, DeliveryOutcome};
use crate::jobs::{Claimed, Heartbeat, LeaseTerm, Report};
use crate::runs::AcquiredRun;

pub(super) const DELAY: Duration = Duration::from_millis(200);

/// The delay in two parts. The lease is two of them.
pub(super) const ALMOST: Duration = Duration::from_millis(199);
pub(super) const MOMENT: Duration = Duration::from_millis(1);

pub(super) fn completed() -> JobOutcome {
    JobOutcome::completed(json!({"ok": [1, 2.5, {}]}))
}

pub(super) fn failed() -> JobOutcome {
    JobOutcome::failed("no".to_owned(), true)
}

pub(super) fn report(claimed: &Claimed, outcome: JobOutcome) -> DeliverResult {
    DeliverResult {
        edge: None,
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome,
        holder: name("gateway-1"),
        lease: LEASE,
    }
}

pub(super) fn deferred(claimed: &Claimed, deliveries: u32) -> DeferResult {
    DeferResult {
        edge: None,
        waited: Duration::ZERO,
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: completed(),
        deliveries,
        delay: DELAY,
        lease: LEASE,
    }
}

pub(super) fn is_fenced<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced { .. }))
}

impl Scene {
    pub(super) async fn deliver(&self, report: &DeliverResult) -> DeliveryOutcome {
        self.store.call(report.clone()).await.expect("the result counts")
    }

    pub(super) async fn delivered(&self, report: &DeliverResult) -> AcquiredRun {
        match self.deliver(report).await {
            DeliveryOutcome::Recorded(taken) => *taken,
            other => panic!("expected to get the run, got {other:?}"),
        }
    }

    /// Puts a result off, and says that it was.
    pub(super) async fn kept(&self, put_off: &DeferResult) {
        assert_eq!(self.store.call(put_off.clone()).await, Ok(DeferOutcome::Deferred));
    }

    pub(super) async fn acquire_deferred(&self, limit: usize) -> Vec<DeferredResult> {
        self.store.call(AcquireDeferredResults { tenant: acme(), limit }).await.expect("the store is up")
    }

    /// A run with this many claimed jobs.
    pub(super) async fn working_at(&self, jobs: u32) -> Vec<Claimed> {
        let run = self.started(&acme()).await;
        let mut turn = running(&self.taken(&acme(), run).await);
        turn.dispatched = (1..=jobs).map(|attempt| new_job(run, attempt)).collect();
        let _ = self.commit(turn).await.expect("the turn is in time");
        self.claim(&acme(), jobs as usize).await
    }

    /// Another instance acquires the run: its cancellation was requested.
    pub(super) async fn hold(&self, job: &JobId) -> AcquiredRun {
        let _ = self
            .store
            .call(RequestCancel { tenant: acme(), run: job.run, by: "a test".to_owned() })
            .await
            .expect("the run is live");
        self.taken(&acme(), job.run).await
    }
}

pub async fn a_result_of_a_free_run_is_recorded_and_brings_the_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let job = &claimed[0].job.id;
    subject.elapse(Duration::from_millis(7)).await;
    let taken = scene.delivered(&report(&claimed[0], completed())).await;
    assert_eq!(outcomes(&taken), [(job.clone(), completed())]);
    assert!(matches!(&taken.inbox[0], InboxEvent::Job { at, .. } if *at == taken.now));
    let ended = scene
        .store
        .call(ReadJob { tenant: acme(), job: job.clone() })
        .await
        .unwrap()
        .expect("the job is there");
    assert_eq!(ended.state, JobState::Succeeded);
    let end = ended.job.end.expect("it has ended");
    assert!(
        end.held < end.fence && end.fence < taken.fence,
        "first the job's fence is raised, then the run's"
    );
    assert!(scene.take(&acme(), job.run).await.is_none(), "the run is the reporter's");

    let committed = scene.commit(idle(&taken)).await.expect("the run is ours");
    assert!(!committed.has_more, "the turn has drained the result that it came with");
    let next = scene.delivered(&report(&claimed[1], failed())).await;
    assert_eq!(outcomes(&next), [(claimed[1].job.id.clone(), failed())]);
    assert!(next.fence > taken.fence && next.head.version == taken.head.version + 1);
}

pub async fn a_result_comes_behind_what_waits_already(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(3).await;
    for early in &claimed[..2] {
        let reported = scene
            .store
            .call(RecordResult {
                edge: None,
                tenant: acme(),
                job: early.job.id.clone(),
                fence: early.lease.fence,
                outcome: failed(),
            })
            .await;
        assert_eq!(reported, Ok(Report::Recorded));
    }
    let taken = scene.delivered(&report(&claimed[2], completed())).await;
    let posted: Vec<JobId> = outcomes(&taken).into_iter().map(|(job, _)| job).collect();
    assert_eq!(posted, claimed.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>());
    let committed = scene.commit(idle(&taken)).await.expect("the run is ours");
    assert!(!committed.has_more && scene.take(&acme(), taken.start.run).await.is_none());
}

pub async fn a_result_of_a_held_run_changes_nothing(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let held = scene.hold(&claimed.job.id).await;
    let before = scene.store.call(ReadJob { tenant: acme(), job: claimed.job.id.clone() }).await.unwrap();
    assert_eq!(scene.deliver(&report(&claimed, completed())).await, DeliveryOutcome::Busy);
    assert_eq!(
        scene.store.call(ReadJob { tenant: acme(), job: claimed.job.id.clone() }).await.unwrap(),
        before
    );
    let committed = scene.commit(idle(&held)).await.expect("its holder has the run still");
    assert!(!committed.has_more, "nothing was put into the inbox");
    assert_eq!(outcomes(&scene.delivered(&report(&claimed, completed())).await).len(), 1);
}

pub async fn an_expired_run_lease_keeps_no_result_waiting(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let late = scene.hold(&claimed.job.id).await;
    let term = LeaseTerm::For(LEASE * 10);
    let beat = scene
        .store
        .call(ExtendJobLease {
            tenant: acme(),
            job: claimed.job.id.clone(),
            fence: claimed.lease.fence,
            term: Some(term),
        })
        .await;
    assert!(matches!(beat, Ok(Heartbeat::Extended { .. })));
    subject.elapse(ALMOST * 2).await;
    assert_eq!(scene.deliver(&report(&claimed, completed())).await, DeliveryOutcome::Busy);
    subject.elapse(MOMENT * 2).await;
    let taken = scene.delivered(&report(&claimed, completed())).await;
    assert_eq!(taken.inbox.len(), 2, "what the late one had not taken into account is there, too");
    assert!(is_fenced(&scene.commit(idle(&late)).await), "and its commit counts no more");
}

pub async fn a_stale_result_is_rejected_and_a_repeated_one_confirmed_whether_the_run_is_held_or_not(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let first = report(&claimed[0], completed());
    let taken = scene.delivered(&first).await;
    let guessed = DeliverResult { fence: Fence::new(first.fence.number() + 1), ..first.clone() };
    let foreign = DeliverResult { tenant: globex(), ..first.clone() };
    let late = report(&claimed[1], completed());
    for is_held in [true, false] {
        assert_eq!(scene.deliver(&first).await, DeliveryOutcome::AlreadyRecorded, "held: {is_held}");
        for stale in [&guessed, &report(&claimed[0], failed())] {
            let refused = scene.store.call(stale.clone()).await;
            let held = stale.fence;
            assert!(
                matches!(refused, Err(StoreError::Fenced { held: fence, .. }) if fence == held),
                "{refused:?}"
            );
        }
        let missing = scene.store.call(foreign.clone()).await;
        assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
        if is_held {
            scene
                .store
                .call(ReleaseRun { tenant: acme(), run: first.job.run, fence: taken.fence })
                .await
                .expect("the store is up");
        }
    }
    subject.elapse(LEASE).await;
    assert!(is_fenced(&scene.store.call(late.clone()).await), "its lease has expired");
}

pub async fn results_at_once_get_the_run_one_at_a_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(12).await;
    let reports: Vec<_> = claimed.iter().map(|it| report(it, completed())).collect();
    let answers = join_all(reports.iter().map(|report| scene.deliver(report))).await;
    let recorded = answers.iter().filter(|it| matches!(it, DeliveryOutcome::Recorded(_))).count();
    let busy = answers.iter().filter(|it| **it == DeliveryOutcome::Busy).count();
    assert_eq!((recorded, busy), (1, 11));
}
