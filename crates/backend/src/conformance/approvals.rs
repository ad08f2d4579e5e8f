//! A person's verdict counts once.

use crate::verbs::{ListApprovals, RequestCancel, ResolveApproval};
use interlock_model::approval::{ApprovalState, Decision, Resolution, Verdict};
use interlock_model::run::{Ending, InboxEvent};
use interlock_model::{JobId, RunId};

use super::Subject;
use super::scene::{Scene, acme, approval, ending, globex, running};
use crate::{PageRequest, StoreError};

fn decision(verdict: Verdict) -> Decision {
    Decision { verdict, by: "someone".to_owned(), reason: None }
}

async fn asked(scene: &Scene) -> (RunId, JobId) {
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    let mut turn = running(&taken);
    turn.approvals_opened = vec![approval(run, taken.now)];
    let job = turn.approvals_opened[0].job.clone();
    let _ = scene.commit(turn).await.unwrap();
    (run, job)
}

pub async fn the_first_verdict_counts(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = asked(&scene).await;
    let foreign = scene
        .store
        .call(ResolveApproval { tenant: globex(), job: job.clone(), decision: decision(Verdict::Approved) })
        .await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })), "{foreign:?}");
    let resolve = async |verdict| {
        scene
            .store
            .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: decision(verdict) })
            .await
            .unwrap()
    };
    assert_eq!(resolve(Verdict::Approved).await, Resolution::Recorded);
    assert_eq!(resolve(Verdict::Approved).await, Resolution::AlreadySo);
    let state = ApprovalState::Resolved(decision(Verdict::Approved));
    assert_eq!(resolve(Verdict::Rejected).await, Resolution::AlreadyOtherwise(state));
    let expected = InboxEvent::Approval { job, decision: decision(Verdict::Approved) };
    assert_eq!(scene.taken(&acme(), run).await.inbox, [expected]);
}

pub async fn an_approval_whose_run_has_ended_is_withdrawn(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, job) = asked(&scene).await;
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    let mut turn = ending(&scene.taken(&acme(), run).await, Ending::Cancelled);
    turn.approvals_withdrawn = vec![job.clone()];
    let _ = scene.commit(turn).await.unwrap();
    let late = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: job.clone(), decision: decision(Verdict::Approved) })
        .await
        .unwrap();
    assert_eq!(late, Resolution::AlreadyOtherwise(ApprovalState::Withdrawn));
    let page = scene
        .store
        .call(ListApprovals { tenant: acme(), page: PageRequest { limit: 10, after: None } })
        .await
        .unwrap();
    assert!(page.items.is_empty());
}

pub async fn open_approvals_are_listed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let (first, second) = (asked(&scene).await, asked(&scene).await);
    let list = async |limit, after| {
        scene.store.call(ListApprovals { tenant: acme(), page: PageRequest { limit, after } }).await.unwrap()
    };
    let page = list(1, None).await;
    assert_eq!(page.items.iter().map(|it| &it.job).collect::<Vec<_>>(), [&second.1]);
    let page = list(1, page.next).await;
    assert_eq!(page.items.iter().map(|it| it.job.clone()).collect::<Vec<_>>(), [first.1]);
    assert_eq!(page.next, None);
    let _ = scene
        .store
        .call(ResolveApproval {
            tenant: acme(),
            job: second.1.clone(),
            decision: decision(Verdict::Rejected),
        })
        .await
        .unwrap();
    assert_eq!(list(10, None).await.items.len(), 1);
}
