//! Held jobs that wait for an approval.

use crate::verbs::{FindDue, ResolveApproval};
use interlock_model::approval::{ApprovalState, Resolution, Verdict};
use interlock_model::dispatch_policy::HoldReason;
use interlock_model::job::JobState;
use interlock_model::run::{Ending, InboxEvent};

use super::Subject;
use super::policy_holds::{IN_PROGRESS, SECOND, deny, release, verdict, wait, within};
use super::scene::{Scene, acme, ending, idle};
use crate::policy_holds::Settled;

pub async fn an_approved_job_goes_to_its_queue_with_the_verdict(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.asked().await;
    assert_eq!(scene.open_approvals().await, std::slice::from_ref(&job));
    assert_eq!(scene.claim(&acme(), 10).await, []);
    let hold = scene.job(&job).await.hold.expect("it is held");
    assert_eq!((hold.reason, hold.look_at), (HoldReason::Approval, None));
    let asked = InboxEvent::ApprovalAsked { job: job.clone(), reason: "rule prod asks".to_owned() };
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(taken.inbox, [asked]);
    let _ = scene.commit(idle(&taken)).await.unwrap();

    let approved = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: verdict(Verdict::Approved) })
        .await;
    assert_eq!(approved, Ok(Resolution::Recorded));
    let resolved = InboxEvent::Approval { job: job.clone(), decision: verdict(Verdict::Approved) };
    assert_eq!(scene.taken(&acme(), run).await.inbox, [resolved]);
    assert_eq!(scene.job(&job).await.state, JobState::Queued);
    assert_eq!(scene.claim(&acme(), 10).await.len(), 1);
    let again = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: verdict(Verdict::Approved) })
        .await;
    assert_eq!(again, Ok(Resolution::AlreadySo));
    assert_eq!(scene.claim(&acme(), 10).await, [], "it is released once");
}

pub async fn a_rejected_job_ends_with_the_verdict(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.asked().await;
    let rejected = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: verdict(Verdict::Rejected) })
        .await;
    assert_eq!(rejected, Ok(Resolution::Recorded));
    let view = scene.job(&job).await;
    assert_eq!((view.state, view.hold), (JobState::Denied, None));
    assert_eq!(scene.claim(&acme(), 10).await, []);
    let resolved = InboxEvent::Approval { job: job.clone(), decision: verdict(Verdict::Rejected) };
    assert_eq!(scene.taken(&acme(), run).await.inbox.last(), Some(&resolved));
    let late = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: verdict(Verdict::Approved) })
        .await
        .unwrap();
    let state = ApprovalState::Resolved(verdict(Verdict::Rejected));
    assert_eq!(late, Resolution::AlreadyOtherwise(state));
}

pub async fn a_job_that_waits_for_an_approval_is_not_settled_by_the_policy(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, job) = scene.asked().await;
    subject.elapse(IN_PROGRESS * 100).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().held, []);
    assert_eq!(scene.take_held(&acme(), SECOND, 10).await, []);
    for settlement in [release(), deny(), wait(HoldReason::PolicyUnavailable, "away"), within("r", 1)] {
        assert_eq!(scene.settle(&job, &settlement).await, Settled::NotHeld, "{settlement:?}");
    }
    assert_eq!(scene.open_approvals().await, [job]);
}

pub async fn a_held_job_that_ends_withdraws_its_approval(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = scene.asked().await;
    let turn = ending(&scene.taken(&acme(), run).await, Ending::Cancelled);
    assert_eq!(turn.revoked, std::slice::from_ref(&job));
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(scene.open_approvals().await, []);
    let late = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: verdict(Verdict::Approved) })
        .await
        .unwrap();
    assert_eq!(late, Resolution::AlreadyOtherwise(ApprovalState::Withdrawn));
    assert_eq!(scene.claim(&acme(), 10).await, []);
    let view = scene.job(&job).await;
    assert_eq!((view.state, view.hold), (JobState::Cancelled, None));
}
