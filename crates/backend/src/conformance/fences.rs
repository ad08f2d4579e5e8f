//! Fences are exact numbers, also above 2^50, where 14-digit printing begins to lose them.

use crate::verbs::{AcquireReadyRuns, AcquireRun, ExtendJobLease, ReadJob, ReadRun, RecordResult};
use interlock_model::job::JobOutcome;
use interlock_model::{Fence, JobId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, holder, idle, new_job, outcomes, running};
use crate::StoreError;
use crate::jobs::Claimed;

const JOBS: u32 = 40;

fn completed() -> JobOutcome {
    JobOutcome::completed(json!(null))
}

fn are_consecutive(fences: &[Fence]) -> bool {
    fences.windows(2).all(|pair| pair[1].number() == pair[0].number() + 1)
}

/// Many jobs of one run, claimed at one moment.
async fn claimed_at_once(scene: &Scene) -> Vec<Claimed> {
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = (1..=JOBS).map(|attempt| new_job(run, attempt)).collect();
    let _ = scene.commit(turn).await.unwrap();
    scene.claim(&acme(), JOBS as usize).await
}

async fn lease_fence(scene: &Scene, job: &JobId) -> Option<Fence> {
    let view = scene
        .store
        .call(ReadJob { tenant: acme(), job: job.clone() })
        .await
        .unwrap()
        .expect("the job is there");
    view.lease.map(|lease| lease.fence)
}

pub async fn fences_above_two_to_the_fifty_are_not_rounded(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = claimed_at_once(&scene).await;
    let fences: Vec<Fence> = claimed.iter().map(|it| it.lease.fence).collect();
    assert_eq!(fences.len(), JOBS as usize);
    assert!(fences[0].number() > 1 << 50, "{}", fences[0]);
    assert!(are_consecutive(&fences), "one moment, one step from each to the next: {fences:?}");
    for Claimed { job, lease, .. } in &claimed {
        let (fence, above) = (lease.fence, Fence::new(lease.fence.number() + 1));
        assert_eq!(lease_fence(&scene, &job.id).await, Some(fence));
        let guessed = scene
            .store
            .call(ExtendJobLease { tenant: acme(), job: job.id.clone(), fence: above, term: None })
            .await;
        assert_eq!(guessed, Err(StoreError::Fenced { held: above, current: fence }));
        let _ = scene
            .store
            .call(ExtendJobLease { tenant: acme(), job: job.id.clone(), fence, term: None })
            .await
            .expect("the exact fence holds");
        assert_eq!(lease_fence(&scene, &job.id).await, Some(fence));
    }
}

pub async fn the_fences_of_an_ended_job_are_not_rounded(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    for Claimed { job, lease, .. } in claimed_at_once(&scene).await {
        let _ = scene
            .store
            .call(RecordResult {
                edge: None,
                tenant: acme(),
                job: job.id.clone(),
                fence: lease.fence,
                outcome: completed(),
            })
            .await
            .unwrap();
        let ended = scene
            .store
            .call(ReadJob { tenant: acme(), job: job.id.clone() })
            .await
            .unwrap()
            .expect("the job is there");
        let end = ended.job.end.expect("it has ended");
        assert_eq!(end.held, lease.fence);
        assert!(end.fence > lease.fence);
        for held in [Fence::new(lease.fence.number() - 1), end.fence] {
            let late = scene
                .store
                .call(RecordResult {
                    tenant: acme(),
                    job: job.id.clone(),
                    fence: held,
                    outcome: completed(),
                    edge: None,
                })
                .await;
            assert_eq!(late, Err(StoreError::Fenced { held, current: end.fence }));
        }
    }
}

pub async fn the_fences_of_a_run_are_not_rounded(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    for _ in 0..5 {
        scene.started(&acme()).await;
    }
    let taken = scene
        .store
        .call(AcquireReadyRuns { tenant: acme(), holder: holder(), lease: LEASE, limit: 10 })
        .await
        .unwrap();
    let taken = taken.runs;
    let fences: Vec<Fence> = taken.iter().map(|it| it.fence).collect();
    assert_eq!(fences.len(), 5);
    assert!(fences[0].number() > 1 << 50 && are_consecutive(&fences), "{fences:?}");
    for turn in taken.iter().map(idle) {
        let guessed = Fence::new(turn.fence.number() + 1);
        let refused = scene.commit(crate::runs::Commit { fence: guessed, ..turn.clone() }).await;
        assert_eq!(refused, Err(StoreError::Fenced { held: guessed, current: turn.fence }));
        let _ = scene.commit(turn.clone()).await.expect("the exact fence holds");
        let found = scene
            .store
            .call(ReadRun { tenant: acme(), run: turn.run })
            .await
            .unwrap()
            .expect("the run is there");
        assert_eq!(found.head.fence, turn.fence);
    }
}

pub async fn fences_are_the_same_after_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = claimed_at_once(&scene).await;
    let run = claimed[0].job.id.run;
    let head =
        scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap().expect("the run is there").head;
    drop(scene);
    subject.reopen().await;
    let store = subject.store();
    let found = store.call(ReadRun { tenant: acme(), run }).await.unwrap().expect("the run is kept");
    assert_eq!(found.head, head);
    for Claimed { job, lease, .. } in &claimed {
        let view = store
            .call(ReadJob { tenant: acme(), job: job.id.clone() })
            .await
            .unwrap()
            .expect("the job is kept");
        assert_eq!(view.lease.as_ref(), Some(lease));
        let _ = store
            .call(RecordResult {
                edge: None,
                tenant: acme(),
                job: job.id.clone(),
                fence: lease.fence,
                outcome: completed(),
            })
            .await
            .expect("the lease is live");
    }
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: holder(), lease: LEASE })
        .await
        .unwrap()
        .expect("there are results");
    assert!(taken.fence > claimed[JOBS as usize - 1].lease.fence, "new fences are larger than the old ones");
    let expected: Vec<_> = claimed.iter().map(|it| (it.job.id.clone(), completed())).collect();
    assert_eq!(outcomes(&taken), expected);
}
