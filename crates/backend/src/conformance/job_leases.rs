//! Leases on jobs: extended, expired, ended with their worker.

use crate::verbs::{
    AbandonWorker, ExpireLeases, ExtendJobLease, FindDue, ReadJob, RecordProgress, RecordResult,
};
use std::time::Duration;

use interlock_model::job::{JobOutcome, JobState, NewJob};
use interlock_model::scheduling::Edge;

use super::Subject;
use super::jobs::{completed, is_fenced};
use super::scene::{LEASE, Scene, acme, claim, globex, name, new_job, outcomes, running};
use crate::StoreError;
use crate::jobs::{Claim, Heartbeat, LeaseTerm, Progress, Report};

pub async fn a_heartbeat_extends_the_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, claimed) = scene.working(&acme()).await;
    for _ in 0..4 {
        subject.elapse(LEASE / 2).await;
        let beat = scene
            .store
            .call(ExtendJobLease {
                tenant: acme(),
                job: claimed.job.id.clone(),
                fence: claimed.lease.fence,
                term: None,
            })
            .await;
        assert!(matches!(beat, Ok(Heartbeat::Extended { lease, .. }) if lease == LEASE), "{beat:?}");
        assert_eq!(scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
    }
}

pub async fn an_expired_lease_cannot_be_revived(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, claimed) = scene.working(&acme()).await;
    subject.elapse(LEASE * 2).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    // No verb has ended the lease yet, and the store already rejects its fence.
    let beat = scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await;
    assert!(
        matches!(beat, Err(StoreError::Fenced { held, current }) if held == fence && current > fence),
        "{beat:?}"
    );
    assert!(is_fenced(
        &scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await
    ));
}

pub async fn a_lost_job_is_posted_to_its_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, claimed) = scene.working(&acme()).await;
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.leases.is_empty() && due.next_in.is_some(), "{due:?}");
    subject.elapse(LEASE * 2).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().leases, [acme()]);
    assert_eq!(
        scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await,
        Ok(vec![claimed.job.id.clone()])
    );
    assert_eq!(scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().ready, [acme()]);
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(outcomes(&taken), [(claimed.job.id.clone(), JobOutcome::Lost)]);
    let shown = scene
        .store
        .call(ReadJob { tenant: acme(), job: claimed.job.id.clone() })
        .await
        .unwrap()
        .expect("the job is there");
    assert_eq!(shown.state, JobState::Lost);
}

pub async fn the_late_worker_is_refused_on_every_call(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, late) = scene.working(&acme()).await;
    subject.elapse(LEASE * 2).await;
    let _ = scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap();
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = vec![new_job(run, 2)];
    let _ = scene.commit(turn).await.unwrap();
    let second = scene.claim(&acme(), 1).await.pop().expect("the step was dispatched again");
    assert!(second.lease.fence > late.lease.fence);

    let (job, fence) = (&late.job.id, late.lease.fence);
    assert!(is_fenced(
        &scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await
    ));
    let progress = Progress { percent: 50, message: None };
    assert!(is_fenced(
        &scene.store.call(RecordProgress { tenant: acme(), job: job.clone(), fence, progress }).await
    ));
    assert!(is_fenced(
        &scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await
    ));
    let failed = JobOutcome::failed("late".to_owned(), true);
    assert!(is_fenced(
        &scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: failed, edge: None })
            .await
    ));
    let report = scene
        .store
        .call(RecordResult {
            edge: None,
            tenant: acme(),
            job: second.job.id.clone(),
            fence: second.lease.fence,
            outcome: completed(),
        })
        .await;
    assert_eq!(report, Ok(Report::Recorded));
}

pub async fn an_offline_nats_worker_loses_its_jobs(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = (1..=5).map(|attempt| new_job(run, attempt)).collect();
    let _ = scene.commit(turn).await.unwrap();
    let theirs = scene.store.call(Claim { edge: Edge::Nats, ..claim(&acme(), 2) }).await.unwrap();
    let other = Claim { worker: name("worker-2"), edge: Edge::Nats, ..claim(&acme(), 1) };
    let other = scene.store.call(other).await.unwrap().pop().expect("a job waits");
    let namesake = scene.claim(&acme(), 1).await.pop().expect("a job waits");
    let (_, foreign) = scene.working(&globex()).await;

    let abandon = async |limit| {
        scene.store.call(AbandonWorker { tenant: acme(), worker: name("worker-1"), limit }).await.unwrap()
    };
    let mut lost = abandon(1).await;
    assert_eq!(lost.len(), 1, "not more than the limit");
    lost.extend(abandon(10).await);
    assert_eq!(abandon(10).await, []);
    let expected: Vec<_> = lost.iter().map(|job| (job.clone(), JobOutcome::Lost)).collect();
    lost.sort();
    assert_eq!(lost, theirs.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>());
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().ready, [acme()]);
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), expected);
    for late in &theirs {
        let (job, fence) = (&late.job.id, late.lease.fence);
        let shown = scene
            .store
            .call(ReadJob { tenant: acme(), job: job.clone() })
            .await
            .unwrap()
            .expect("the job is there");
        let held_by = shown.job.end.and_then(|end| end.worker);
        assert_eq!((shown.state, shown.lease, held_by), (JobState::Lost, None, Some(name("worker-1"))));
        assert!(is_fenced(
            &scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await
        ));
        assert!(is_fenced(
            &scene
                .store
                .call(RecordResult {
                    tenant: acme(),
                    job: job.clone(),
                    fence,
                    outcome: completed(),
                    edge: None
                })
                .await
        ));
    }
    for (tenant, kept) in [(acme(), &other), (acme(), &namesake), (globex(), &foreign)] {
        let beat = scene
            .store
            .call(ExtendJobLease {
                tenant: tenant.clone(),
                job: kept.job.id.clone(),
                fence: kept.lease.fence,
                term: None,
            })
            .await;
        assert!(matches!(beat, Ok(Heartbeat::Extended { .. })), "{beat:?}");
    }
    assert_eq!(scene.claim(&acme(), 10).await.len(), 1, "a job without a lease still waits");
    subject.elapse(LEASE * 2).await;
    let expired = scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap();
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
    let claimed = scene.store.call(request).await.unwrap();
    let [timed, endless, late] = &claimed[..] else { panic!("three jobs wait, not {claimed:?}") };
    assert_eq!(timed.lease.expires_at, deadline);
    assert_eq!(timed.lease.ttl, deadline.since(timed.lease.claimed_at));
    assert_eq!(endless.lease.ttl, LEASE, "a step without a time-out");
    assert_eq!(late.lease.ttl, Duration::from_secs(1), "the engine ends a step that is late");
    for it in &claimed {
        assert_eq!(it.lease.expires_at, it.lease.claimed_at + it.lease.ttl);
        let shown = scene
            .store
            .call(ReadJob { tenant: acme(), job: it.job.id.clone() })
            .await
            .unwrap()
            .expect("the job is there");
        assert_eq!((shown.lease.as_ref(), &shown.job.new), (Some(&it.lease), &it.job));
    }
    subject.elapse(LEASE + LEASE / 4).await;
    assert_eq!(
        scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await,
        Ok(vec![endless.job.id.clone()])
    );
    subject.elapse(Duration::from_secs(3)).await;
    let mut expired = scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap();
    expired.sort();
    assert_eq!(expired, [timed.job.id.clone(), late.job.id.clone()]);
}

pub async fn a_lease_may_be_extended_to_another_term(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (_, held) = scene.working(&acme()).await;
    let (job, fence) = (&held.job.id, held.lease.fence);
    let term = LeaseTerm::UntilDeadline { otherwise: LEASE * 10 };
    let longer = scene
        .store
        .call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: Some(term) })
        .await
        .unwrap();
    assert!(matches!(longer, Heartbeat::Extended { lease, .. } if lease == LEASE * 10), "{longer:?}");
    subject.elapse(LEASE * 5).await;
    assert_eq!(scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
    let beat = scene
        .store
        .call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None })
        .await
        .unwrap();
    assert!(matches!(beat, Heartbeat::Extended { lease, .. } if lease == LEASE * 10), "it is the term now");
    let shorter = scene
        .store
        .call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: Some(LeaseTerm::For(LEASE)) })
        .await
        .unwrap();
    assert!(matches!(shorter, Heartbeat::Extended { lease, .. } if lease == LEASE));
    subject.elapse(LEASE * 2).await;
    let late =
        scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: Some(term) }).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "an expired lease cannot be extended: {late:?}");
}
