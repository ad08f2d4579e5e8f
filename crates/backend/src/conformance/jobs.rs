//! Who may write: leases and fences of jobs.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::history::EventKind;
use interlock_model::job::{JobOutcome, JobState, NewJob};
use interlock_model::{Fence, JobId};
use serde_json::json;

use super::Subject;
use super::scene::{LEASE, Scene, acme, claim, globex, name, new_job, outcomes, running};
use crate::jobs::{Claim, Heartbeat, LeaseTerm, Progress, Report};
use crate::{PageRequest, StoreError};

fn completed() -> JobOutcome {
    JobOutcome::Completed { output: json!({"ok": true}) }
}

fn is_fenced<T: std::fmt::Debug>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced { .. }))
}

/// Jobs of three runs, each a little younger than the one before.
async fn three_jobs(scene: &Scene, subject: &dyn Subject) -> Vec<JobId> {
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
    assert!(scene.store.claim(other_topic).await.unwrap().is_empty());
}

pub async fn jobs_are_listed_newest_first_page_by_page(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let jobs = three_jobs(&scene, subject).await;
    scene.claim(&acme(), 1).await;
    let list = async |state, limit, after| {
        let page = scene.store.jobs(&acme(), state, &PageRequest { limit, after }).await.unwrap();
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
        let shown = scene.store.job(&acme(), &claimed.job.id).await.unwrap().expect("the job is there");
        assert_eq!(shown.lease.map(|lease| lease.fence), Some(last), "a fence comes back unrounded");
    }
}

pub async fn a_heartbeat_extends_the_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, claimed) = scene.working(&acme()).await;
    for _ in 0..4 {
        subject.elapse(LEASE / 2).await;
        let beat = scene.store.heartbeat(&acme(), &claimed.job.id, claimed.lease.fence).await;
        assert!(matches!(beat, Ok(Heartbeat::Extended { lease, .. }) if lease == LEASE), "{beat:?}");
        assert_eq!(scene.store.expire(&acme(), 10).await, Ok(Vec::new()));
    }
}

pub async fn a_lease_that_ran_out_cannot_be_revived(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, claimed) = scene.working(&acme()).await;
    subject.elapse(LEASE * 2).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    // Nobody has noticed yet that the time is over; the store knows.
    let beat = scene.store.heartbeat(&acme(), job, fence).await;
    assert!(
        matches!(beat, Err(StoreError::Fenced { held, current }) if held == fence && current > fence),
        "{beat:?}"
    );
    assert!(is_fenced(&scene.store.report(&acme(), job, fence, completed()).await));
}

pub async fn a_lost_job_is_told_to_its_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let due = scene.store.due(10).await.unwrap();
    assert!(due.leases.is_empty() && due.next_in.is_some(), "{due:?}");
    subject.elapse(LEASE * 2).await;
    assert_eq!(scene.store.due(10).await.unwrap().leases, [acme()]);
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(vec![claimed.job.id.clone()]));
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(Vec::new()));
    assert_eq!(scene.store.due(10).await.unwrap().ready, [acme()]);
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(outcomes(&taken), [(claimed.job.id.clone(), JobOutcome::Lost)]);
    let shown = scene.store.job(&acme(), &claimed.job.id).await.unwrap().expect("the job is there");
    assert_eq!(shown.state, JobState::Lost);
}

pub async fn the_late_worker_is_refused_on_every_call(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, late) = scene.working(&acme()).await;
    subject.elapse(LEASE * 2).await;
    let _ = scene.store.expire(&acme(), 10).await.unwrap();
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = vec![new_job(run, 2)];
    let _ = scene.commit(turn).await.unwrap();
    let second = scene.claim(&acme(), 1).await.pop().expect("the step was dispatched again");
    assert!(second.lease.fence > late.lease.fence);

    let (job, fence) = (&late.job.id, late.lease.fence);
    assert!(is_fenced(&scene.store.heartbeat(&acme(), job, fence).await));
    let progress = Progress { percent: 50, message: None };
    assert!(is_fenced(&scene.store.progress(&acme(), job, fence, progress).await));
    assert!(is_fenced(&scene.store.report(&acme(), job, fence, completed()).await));
    let failed = JobOutcome::Failed { error: "late".to_owned(), retryable: true };
    assert!(is_fenced(&scene.store.report(&acme(), job, fence, failed).await));
    let report = scene.store.report(&acme(), &second.job.id, second.lease.fence, completed()).await;
    assert_eq!(report, Ok(Report::Recorded));
}

pub async fn a_worker_that_is_gone_loses_its_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = (1..=4).map(|attempt| new_job(run, attempt)).collect();
    let _ = scene.commit(turn).await.unwrap();
    let gone = scene.claim(&acme(), 2).await;
    let other = Claim { worker: name("worker-2"), ..claim(&acme(), 1) };
    let other = scene.store.claim(other).await.unwrap().pop().expect("a job waits");
    let (_, foreign) = scene.working(&globex()).await;

    let abandon = async |limit| scene.store.abandon(&acme(), &name("worker-1"), limit).await.unwrap();
    let mut lost = abandon(1).await;
    assert_eq!(lost.len(), 1, "not more than asked for");
    lost.extend(abandon(10).await);
    assert_eq!(abandon(10).await, []);
    let told: Vec<_> = lost.iter().map(|job| (job.clone(), JobOutcome::Lost)).collect();
    lost.sort();
    assert_eq!(lost, gone.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>());
    assert_eq!(scene.store.due(10).await.unwrap().ready, [acme()]);
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), told);
    for late in &gone {
        let (job, fence) = (&late.job.id, late.lease.fence);
        let shown = scene.store.job(&acme(), job).await.unwrap().expect("the job is there");
        let held_by = shown.job.end.and_then(|end| end.worker);
        assert_eq!((shown.state, shown.lease, held_by), (JobState::Lost, None, Some(name("worker-1"))));
        assert!(is_fenced(&scene.store.heartbeat(&acme(), job, fence).await));
        assert!(is_fenced(&scene.store.report(&acme(), job, fence, completed()).await));
    }
    for (tenant, kept) in [(acme(), &other), (globex(), &foreign)] {
        let beat = scene.store.heartbeat(&tenant, &kept.job.id, kept.lease.fence).await;
        assert!(matches!(beat, Ok(Heartbeat::Extended { .. })), "{beat:?}");
    }
    assert_eq!(scene.claim(&acme(), 10).await.len(), 1, "what nobody held still waits");
    subject.elapse(LEASE * 2).await;
    let expired = scene.store.expire(&acme(), 10).await.unwrap();
    assert!(lost.iter().all(|job| !expired.contains(job)), "{expired:?}");
}

pub async fn a_lease_until_the_deadline_ends_with_the_step(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    let deadline = taken.now + Duration::from_secs(3);
    let mut turn = running(&taken);
    turn.dispatched = [Some(deadline), None, Some(taken.now)]
        .into_iter()
        .zip(1..)
        .map(|(deadline_at, attempt)| NewJob { deadline_at, ..new_job(run, attempt) })
        .collect();
    let _ = scene.commit(turn).await.unwrap();
    let request = Claim { term: LeaseTerm::UntilDeadline { otherwise: LEASE }, ..claim(&acme(), 3) };
    let claimed = scene.store.claim(request).await.unwrap();
    let [timed, endless, late] = &claimed[..] else { panic!("three jobs wait, not {claimed:?}") };
    assert_eq!(timed.lease.expires_at, deadline);
    assert_eq!(timed.lease.ttl, deadline.since(timed.lease.claimed_at));
    assert_eq!(endless.lease.ttl, LEASE, "a step without a time-out");
    assert_eq!(late.lease.ttl, Duration::from_secs(1), "the engine ends a step that is late");
    for it in &claimed {
        assert_eq!(it.lease.expires_at, it.lease.claimed_at + it.lease.ttl);
        let shown = scene.store.job(&acme(), &it.job.id).await.unwrap().expect("the job is there");
        assert_eq!((shown.lease.as_ref(), &shown.job.new), (Some(&it.lease), &it.job));
    }
    subject.elapse(LEASE + LEASE / 4).await;
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(vec![endless.job.id.clone()]));
    subject.elapse(Duration::from_secs(3)).await;
    let mut expired = scene.store.expire(&acme(), 10).await.unwrap();
    expired.sort();
    assert_eq!(expired, [timed.job.id.clone(), late.job.id.clone()]);
}

pub async fn a_held_job_may_be_held_for_another_term(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, held) = scene.working(&acme()).await;
    let (job, fence) = (&held.job.id, held.lease.fence);
    let term = LeaseTerm::UntilDeadline { otherwise: LEASE * 10 };
    let longer = scene.store.hold(&acme(), job, fence, term).await.unwrap();
    assert!(matches!(longer, Heartbeat::Extended { lease, .. } if lease == LEASE * 10), "{longer:?}");
    subject.elapse(LEASE * 5).await;
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(Vec::new()));
    let beat = scene.store.heartbeat(&acme(), job, fence).await.unwrap();
    assert!(matches!(beat, Heartbeat::Extended { lease, .. } if lease == LEASE * 10), "it is the term now");
    let shorter = scene.store.hold(&acme(), job, fence, LeaseTerm::For(LEASE)).await.unwrap();
    assert!(matches!(shorter, Heartbeat::Extended { lease, .. } if lease == LEASE));
    subject.elapse(LEASE * 2).await;
    let late = scene.store.hold(&acme(), job, fence, term).await;
    assert!(
        matches!(late, Err(StoreError::Fenced { .. })),
        "what has run out cannot be held again: {late:?}"
    );
}

pub async fn a_result_is_recorded_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(scene.store.report(&acme(), job, fence, completed()).await, Ok(Report::Recorded));
    assert_eq!(scene.store.report(&acme(), job, fence, completed()).await, Ok(Report::AlreadyRecorded));
    let failed = JobOutcome::Failed { error: "no".to_owned(), retryable: false };
    assert!(is_fenced(&scene.store.report(&acme(), job, fence, failed).await));
    assert!(is_fenced(&scene.store.heartbeat(&acme(), job, fence).await));
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(outcomes(&taken), [(job.clone(), completed())]);
    subject.elapse(LEASE * 2).await;
    assert_eq!(scene.store.expire(&acme(), 10).await, Ok(Vec::new()));
}

pub async fn a_guessed_fence_is_refused(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (_, claimed) = scene.working(&acme()).await;
    let run = scene.started(&acme()).await;
    let waiting = scene.begin(&acme(), run).await;
    let above = Fence::new(claimed.lease.fence.number() + 1);
    for fence in [Fence::NONE, Fence::new(claimed.lease.fence.number() - 1), above] {
        assert!(is_fenced(&scene.store.report(&acme(), &claimed.job.id, fence, completed()).await));
        assert!(is_fenced(&scene.store.report(&acme(), &waiting, fence, completed()).await));
        assert!(is_fenced(&scene.store.heartbeat(&acme(), &waiting, fence).await));
    }
    let _ = scene.store.cancel_job(&acme(), &waiting, "a test").await.unwrap();
    assert!(is_fenced(&scene.store.heartbeat(&acme(), &waiting, Fence::NONE).await));
}

pub async fn a_cancelled_job_is_told_to_stop(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(scene.store.cancel_job(&acme(), job, "a test").await, Ok(JobState::Cancelled));
    assert_eq!(scene.store.cancel_job(&acme(), job, "a test").await, Ok(JobState::Cancelled));
    assert_eq!(scene.store.heartbeat(&acme(), job, fence).await, Ok(Heartbeat::CancelRequested));
    assert!(is_fenced(&scene.store.report(&acme(), job, fence, completed()).await));
    let outcome = JobOutcome::Cancelled { by: "a test".to_owned() };
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job.clone(), outcome)]);
}

pub async fn a_waiting_job_that_is_cancelled_cannot_be_claimed(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let job = scene.begin(&acme(), run).await;
    let _ = scene.store.cancel_job(&acme(), &job, "a test").await.unwrap();
    assert!(scene.claim(&acme(), 1).await.is_empty());
}

pub async fn another_tenants_job_is_not_there(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, claimed) = scene.working(&acme()).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    assert_eq!(scene.store.job(&globex(), job).await, Ok(None));
    let beat = scene.store.heartbeat(&globex(), job, fence).await;
    assert!(matches!(beat, Err(StoreError::NotFound { .. })), "{beat:?}");
    let report = scene.store.report(&globex(), job, fence, completed()).await;
    assert!(matches!(report, Err(StoreError::NotFound { .. })), "{report:?}");
    assert!(scene.claim(&globex(), 10).await.is_empty());
}

pub async fn progress_stands_in_the_timeline(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let progress = Progress { percent: 40, message: Some("compiling".to_owned()) };
    scene.store.progress(&acme(), &claimed.job.id, claimed.lease.fence, progress).await.unwrap();
    let events = scene.store.timeline(&acme(), run, 0, 100).await.unwrap();
    let told = &events.last().expect("there are events").event;
    assert_eq!((told.kind, told.message.as_deref()), (EventKind::StepProgress, Some("compiling")));
    assert_eq!(told.data, Some(json!({"percent": 40})));
}

pub async fn a_worker_that_claims_is_seen(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    assert_eq!(scene.store.worker(&acme(), &name("worker-1")).await, Ok(None));
    scene.claim(&acme(), 1).await;
    let page = scene.store.workers(&acme(), &PageRequest { limit: 10, after: None }).await.unwrap();
    assert_eq!(page.items.iter().map(|it| it.worker.as_str()).collect::<Vec<_>>(), ["worker-1"]);
    let first_seen_at = page.items[0].first_seen_at;
    subject.elapse(Duration::from_millis(1_500)).await;
    scene.claim(&acme(), 1).await;
    let seen = scene.store.worker(&acme(), &name("worker-1")).await.unwrap().expect("it is known");
    assert_eq!(seen.first_seen_at, first_seen_at);
    assert!(seen.last_seen_at > first_seen_at);
    // One that is busy with a job is seen by its heartbeats.
    let (_, claimed) = scene.working(&acme()).await;
    for _ in 0..4 {
        subject.elapse(LEASE * 3 / 4).await;
        let _ = scene.store.heartbeat(&acme(), &claimed.job.id, claimed.lease.fence).await.unwrap();
    }
    let busy = scene.store.worker(&acme(), &name("worker-1")).await.unwrap().expect("it is known");
    assert!(busy.last_seen_at > seen.last_seen_at);
}
