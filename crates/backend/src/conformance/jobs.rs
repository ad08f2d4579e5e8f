//! Who may write: leases and fences of jobs.

use crate::verbs::{
    CancelJob, ExpireLeases, ExtendJobLease, ListJobs, ListWorkers, ReadJob, ReadTimeline, ReadWorker,
    RecordProgress, RecordResult,
};
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::history::{EventKind, Recorded};
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::{Fence, JobId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, claim, globex, name, new_job, outcomes, running};
use crate::jobs::{Claimed, Heartbeat, Progress, Report};
use crate::{PageRequest, StoreError};

pub(super) fn completed() -> JobOutcome {
    JobOutcome::completed(json!({"ok": true}))
}

pub(super) fn is_fenced<T: std::fmt::Debug>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced { .. }))
}

/// Jobs of three runs, each a little younger than the one before.
pub(super) async fn three_jobs(scene: &Scene, subject: &dyn Subject) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let run = scene.started(&acme()).await;
        jobs.push(scene.begin(&acme(), run).await);
        subject.elapse(Duration::from_millis(5)).await;
    }
    jobs
}

pub async fn jobs_are_claimed_oldest_first_and_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let jobs = three_jobs(&scene, subject).await;
    let mut claimed: Vec<JobId> = scene.claim(&acme(), 2).await.into_iter().map(|it| it.job.id).collect();
    assert_eq!(claimed, jobs[..2]);
    claimed.extend(scene.claim(&acme(), 5).await.into_iter().map(|it| it.job.id));
    assert_eq!(claimed, jobs);
    assert!(scene.claim(&acme(), 5).await.is_empty());
    let mut other_topic = claim(&acme(), 5);
    other_topic.topics = vec![name("test")];
    assert!(scene.store.call(other_topic).await.unwrap().is_empty());
}

pub async fn jobs_are_listed_newest_first_page_by_page(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let jobs = three_jobs(&scene, subject).await;
    scene.claim(&acme(), 1).await;
    let list = async |state, limit, after| {
        let page = scene
            .store
            .call(ListJobs { tenant: acme(), state, page: PageRequest { limit, after } })
            .await
            .unwrap();
        (page.items.into_iter().map(|it| it.job.new.id).collect::<Vec<_>>(), page.next)
    };
    let (first, next) = list(None, 2, None).await;
    assert_eq!(first, [jobs[2].clone(), jobs[1].clone()]);
    assert_eq!(list(None, 2, next).await, (vec![jobs[0].clone()], None));
    assert_eq!(list(Some(JobState::Running), 10, None).await, (vec![jobs[0].clone()], None));
}

pub async fn claims_at_once_never_share_a_job(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = (1..=20).map(|attempt| new_job(run, attempt)).collect();
    let _ = scene.commit(turn).await.unwrap();
    let tenant = acme();
    let answers = join_all((0..30).map(|_| scene.claim(&tenant, 1))).await;
    let mut jobs: Vec<_> = answers.into_iter().flatten().map(|it| (it.job.id, it.lease.fence)).collect();
    jobs.sort();
    assert_eq!(jobs.iter().map(|(job, _)| job.attempt).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    let mut fences: Vec<_> = jobs.iter().map(|(_, fence)| *fence).collect();
    fences.sort();
    fences.dedup();
    assert_eq!(fences.len(), 20, "each claim has a fence of its own");
}

pub async fn fences_only_grow(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    let mut last = taken.fence;
    // Above 2^50, where arithmetic in doubles and 14-digit printing begin to lose numbers.
    assert!(last.number() > 1 << 50, "{last}");
    let mut turn = running(&taken);
    turn.dispatched = (1..=10).map(|attempt| new_job(run, attempt)).collect();
    let _ = scene.commit(turn).await.unwrap();
    for _ in 0..10 {
        let claimed = scene.claim(&acme(), 1).await.pop().expect("a job waits");
        assert!(claimed.lease.fence > last);
        last = claimed.lease.fence;
        let shown = scene
            .store
            .call(ReadJob { tenant: acme(), job: claimed.job.id.clone() })
            .await
            .unwrap()
            .expect("the job is there");
        assert_eq!(shown.lease.map(|lease| lease.fence), Some(last), "a fence comes back unrounded");
    }
}

pub async fn a_result_is_recorded_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await,
        Ok(Report::Recorded)
    );
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await,
        Ok(Report::AlreadyRecorded)
    );
    let failed = JobOutcome::failed("no".to_owned(), false);
    assert!(is_fenced(
        &scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: failed, edge: None })
            .await
    ));
    assert!(is_fenced(
        &scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await
    ));
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(outcomes(&taken), [(job.clone(), completed())]);
    subject.elapse(LEASE * 2).await;
    assert_eq!(scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
}

pub async fn a_guessed_fence_is_rejected(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (_, claimed) = scene.working(&acme()).await;
    let run = scene.started(&acme()).await;
    let waiting = scene.begin(&acme(), run).await;
    let above = Fence::new(claimed.lease.fence.number() + 1);
    for fence in [Fence::NONE, Fence::new(claimed.lease.fence.number() - 1), above] {
        assert!(is_fenced(
            &scene
                .store
                .call(RecordResult {
                    edge: None,
                    tenant: acme(),
                    job: claimed.job.id.clone(),
                    fence,
                    outcome: completed()
                })
                .await
        ));
        assert!(is_fenced(
            &scene
                .store
                .call(RecordResult {
                    tenant: acme(),
                    job: waiting.clone(),
                    fence,
                    outcome: completed(),
                    edge: None
                })
                .await
        ));
        assert!(is_fenced(
            &scene
                .store
                .call(ExtendJobLease { tenant: acme(), job: waiting.clone(), fence, term: None })
                .await
        ));
    }
    let _ = scene
        .store
        .call(CancelJob { tenant: acme(), job: waiting.clone(), by: "a test".to_owned() })
        .await
        .unwrap();
    assert!(is_fenced(
        &scene
            .store
            .call(ExtendJobLease { tenant: acme(), job: waiting.clone(), fence: Fence::NONE, term: None })
            .await
    ));
}

pub async fn a_heartbeat_of_a_cancelled_job_asks_its_worker_to_stop(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(
        scene.store.call(CancelJob { tenant: acme(), job: job.clone(), by: "a test".to_owned() }).await,
        Ok(JobState::Cancelled)
    );
    assert_eq!(
        scene.store.call(CancelJob { tenant: acme(), job: job.clone(), by: "a test".to_owned() }).await,
        Ok(JobState::Cancelled)
    );
    assert_eq!(
        scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await,
        Ok(Heartbeat::CancelRequested)
    );
    assert!(is_fenced(
        &scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await
    ));
    let outcome = JobOutcome::Cancelled { by: "a test".to_owned() };
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job.clone(), outcome)]);
}

pub async fn a_waiting_job_that_is_cancelled_cannot_be_claimed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let job = scene.begin(&acme(), run).await;
    let _ = scene
        .store
        .call(CancelJob { tenant: acme(), job: job.clone(), by: "a test".to_owned() })
        .await
        .unwrap();
    assert!(scene.claim(&acme(), 1).await.is_empty());
}

pub async fn another_tenants_job_is_not_there(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(scene.store.call(ReadJob { tenant: globex(), job: job.clone() }).await, Ok(None));
    let beat =
        scene.store.call(ExtendJobLease { tenant: globex(), job: job.clone(), fence, term: None }).await;
    assert!(matches!(beat, Err(StoreError::NotFound { .. })), "{beat:?}");
    let report = scene
        .store
        .call(RecordResult { tenant: globex(), job: job.clone(), fence, outcome: completed(), edge: None })
        .await;
    assert!(matches!(report, Err(StoreError::NotFound { .. })), "{report:?}");
    assert!(scene.claim(&globex(), 10).await.is_empty());
}

pub async fn progress_is_in_the_timeline(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let progress = Progress { percent: 40, message: Some("compiling".to_owned()) };
    scene
        .store
        .call(RecordProgress {
            tenant: acme(),
            job: claimed.job.id.clone(),
            fence: claimed.lease.fence,
            progress,
        })
        .await
        .unwrap();
    let events = scene.store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 }).await.unwrap();
    let last = &events.last().expect("there are events").event;
    assert_eq!((last.kind, last.message.as_deref()), (EventKind::StepProgress, Some("compiling")));
    assert_eq!(last.data, Some(json!({"percent": 40})));
}

pub async fn progress_is_one_event_a_second_and_the_last_one(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let claimed = scene.working_at(2).await;
    let report = async |job: usize, percent| {
        let Claimed { job, lease, .. } = &claimed[job];
        let (job, fence, progress) = (job.id.clone(), lease.fence, Progress { percent, message: None });
        scene.store.call(RecordProgress { tenant: acme(), job, fence, progress }).await.unwrap();
    };
    for percent in [10, 20, 30] {
        report(0, percent).await;
        report(1, percent + 1).await;
    }
    for _ in 0..4 {
        subject.elapse(Duration::from_millis(250)).await;
        let (job, fence) = (claimed[0].job.id.clone(), claimed[0].lease.fence);
        let _ = scene.store.call(ExtendJobLease { tenant: acme(), job, fence, term: None }).await.unwrap();
    }
    for percent in [40, 50] {
        report(0, percent).await;
    }
    let mut seen = Vec::new();
    for run in BTreeSet::from([claimed[0].job.id.run, claimed[1].job.id.run]) {
        let read = ReadTimeline { tenant: acme(), run, after: 0, limit: 100 };
        for Recorded { event, .. } in scene.store.call(read).await.unwrap() {
            if event.kind == EventKind::StepProgress {
                let claimed_job =
                    claimed.iter().position(|claimed| Some(&claimed.job.id) == event.job.as_ref());
                seen.push((claimed_job.unwrap(), event.data.unwrap()["percent"].clone()));
            }
        }
    }
    seen.sort_by_key(|(job, percent)| (*job, percent.as_u64()));
    assert_eq!(seen, [(0, json!(30)), (0, json!(50)), (1, json!(31))]);
}

pub async fn a_worker_that_claims_is_seen(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    assert_eq!(scene.store.call(ReadWorker { tenant: acme(), worker: name("worker-1") }).await, Ok(None));
    scene.claim(&acme(), 1).await;
    let page = scene
        .store
        .call(ListWorkers { tenant: acme(), page: PageRequest { limit: 10, after: None } })
        .await
        .unwrap();
    assert_eq!(page.items.iter().map(|it| it.worker.as_str()).collect::<Vec<_>>(), ["worker-1"]);
    let first_seen_at = page.items[0].first_seen_at;
    subject.elapse(Duration::from_millis(1_500)).await;
    scene.claim(&acme(), 1).await;
    let seen = scene
        .store
        .call(ReadWorker { tenant: acme(), worker: name("worker-1") })
        .await
        .unwrap()
        .expect("it is known");
    assert_eq!(seen.first_seen_at, first_seen_at);
    assert!(seen.last_seen_at > first_seen_at);
    // One that is busy with a job is seen by its heartbeats.
    let (_, claimed) = scene.working(&acme()).await;
    for _ in 0..4 {
        subject.elapse(LEASE * 3 / 4).await;
        let _ = scene
            .store
            .call(ExtendJobLease {
                tenant: acme(),
                job: claimed.job.id.clone(),
                fence: claimed.lease.fence,
                term: None,
            })
            .await
            .unwrap();
    }
    let busy = scene
        .store
        .call(ReadWorker { tenant: acme(), worker: name("worker-1") })
        .await
        .unwrap()
        .expect("it is known");
    assert!(busy.last_seen_at > seen.last_seen_at);
}
