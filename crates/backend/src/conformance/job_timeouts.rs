//! Timeouts of jobs: of an attempt, by its claim; of the wait for a worker, by its dispatch.

use std::slice;

use interlock_model::job::{JobOutcome, JobState, NewJob};
use interlock_model::{Fence, JobId, RunId, Timestamp};

use super::Subject;
use super::jobs::{completed, is_fenced};
use super::scene::{LEASE, Scene, acme, claim, held_job, idle, new_job, outcomes, running};
use crate::jobs::{Claim, Heartbeat, LeaseTerm};
use crate::verbs::{CancelJob, DeleteRun, ExpireLeases, ExtendJobLease, FindDue, ReadJob, RecordResult};

impl Scene {
    /// A live run with this job, and its dispatch's time.
    async fn dispatched(&self, change: impl FnOnce(NewJob, Timestamp) -> NewJob) -> (RunId, Timestamp) {
        let run = self.started(&acme()).await;
        let taken = self.taken(&acme(), run).await;
        let mut turn = running(&taken);
        turn.dispatched = vec![change(new_job(run, 1), taken.now)];
        let _ = self.commit(turn).await.unwrap();
        (run, taken.now)
    }

    async fn expired(&self) -> Vec<JobId> {
        self.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap()
    }

    async fn state(&self, job: &JobId) -> JobState {
        let found = self.store.call(ReadJob { tenant: acme(), job: job.clone() }).await.unwrap();
        found.expect("the job is there").state
    }

    async fn extended(&self, job: &JobId, fence: Fence) -> Heartbeat {
        let extend = ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None };
        self.store.call(extend).await.unwrap()
    }
}

pub async fn an_attempt_times_out_by_its_claim_and_not_by_its_dispatch(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, _) = scene.dispatched(|job, _| NewJob { timeout: Some(LEASE / 2), ..job }).await;
    subject.elapse(LEASE * 2).await;
    assert!(scene.expired().await.is_empty(), "no worker has begun");
    let claimed = scene.claim(&acme(), 1).await.remove(0);
    let (job, lease) = (&claimed.job.id, &claimed.lease);
    assert_eq!(lease.deadline_at, Some(lease.claimed_at + LEASE / 2));
    assert_eq!((lease.ttl, Some(lease.expires_at)), (LEASE / 2, lease.deadline_at));
    let shown = scene.store.call(ReadJob { tenant: acme(), job: job.clone() }).await.unwrap().unwrap();
    assert_eq!(shown.lease.as_ref(), Some(lease));
    subject.elapse(LEASE).await;
    let late = RecordResult {
        tenant: acme(),
        job: job.clone(),
        fence: lease.fence,
        edge: None,
        outcome: completed(),
    };
    assert!(is_fenced(&scene.store.call(late.clone()).await), "its time is over, though no call has noticed");
    assert_eq!(scene.expired().await, slice::from_ref(job));
    assert_eq!(scene.state(job).await, JobState::TimedOut);
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job.clone(), JobOutcome::TimedOut)]);
    assert_eq!(scene.extended(job, lease.fence).await, Heartbeat::CancelRequested, "its worker may stop");
    assert!(is_fenced(&scene.store.call(late).await));
}

pub async fn a_lease_is_not_extended_beyond_the_attempt(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, _) = scene.dispatched(|job, _| NewJob { timeout: Some(LEASE + LEASE / 2), ..job }).await;
    let claimed = scene.claim(&acme(), 1).await.remove(0);
    let (job, lease) = (&claimed.job.id, &claimed.lease);
    assert_eq!(lease.ttl, LEASE);
    subject.elapse(LEASE * 3 / 4).await;
    let Heartbeat::Extended { lease: left, expires_at } = scene.extended(job, lease.fence).await else {
        panic!("the lease is live");
    };
    assert_eq!(Some(expires_at), lease.deadline_at);
    assert!(left < LEASE && !left.is_zero(), "{left:?}");
    subject.elapse(LEASE).await;
    assert_eq!(scene.expired().await, slice::from_ref(job));
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job.clone(), JobOutcome::TimedOut)]);
}

pub async fn a_worker_that_is_lost_before_the_deadline_is_lost(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, _) = scene.dispatched(|job, _| NewJob { timeout: Some(LEASE * 2), ..job }).await;
    let job = scene.claim(&acme(), 1).await.remove(0).job.id;
    // This is noticed after the deadline, too.
    subject.elapse(LEASE * 3).await;
    assert_eq!(scene.expired().await, slice::from_ref(&job));
    assert_eq!(scene.state(&job).await, JobState::Lost);
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job, JobOutcome::Lost)]);
}

pub async fn an_attempt_ends_with_its_step_at_the_latest(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let soon = |job: NewJob, now: Timestamp| NewJob {
        timeout: Some(LEASE * 10),
        deadline_at: Some(now + LEASE * 2),
        ..job
    };
    let (_, now) = scene.dispatched(soon).await;
    let request = Claim { term: LeaseTerm::UntilDeadline { otherwise: LEASE }, ..claim(&acme(), 1) };
    let claimed = scene.store.call(request).await.unwrap().remove(0);
    let until = Some(now + LEASE * 2);
    assert_eq!((claimed.lease.deadline_at, Some(claimed.lease.expires_at)), (until, until));
}

pub async fn a_job_that_no_worker_claims_in_time_ends(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let wait = LEASE;
    let (run, _) = scene.dispatched(|job, now| NewJob { queue_until: Some(now + wait), ..job }).await;
    let job = new_job(run, 1).id;
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.leases.is_empty() && due.next_in.is_some_and(|next| next <= wait), "{due:?}");
    assert!(scene.expired().await.is_empty());
    subject.elapse(wait * 2).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().leases, [acme()]);
    assert_eq!(scene.expired().await, slice::from_ref(&job));
    assert_eq!(scene.state(&job).await, JobState::TimedOut);
    assert!(scene.claim(&acme(), 1).await.is_empty(), "it is in no queue");
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job, JobOutcome::Unclaimed)]);
    assert!(scene.expired().await.is_empty());
    assert!(scene.store.call(FindDue { limit: 10 }).await.unwrap().leases.is_empty());
}

pub async fn a_claimed_job_waits_no_more(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let (run, _) = scene.dispatched(|job, now| NewJob { queue_until: Some(now + LEASE / 2), ..job }).await;
    let claimed = scene.claim(&acme(), 1).await.remove(0);
    assert_eq!(claimed.lease.deadline_at, None);
    subject.elapse(LEASE * 3 / 4).await;
    assert!(scene.expired().await.is_empty());
    let (job, fence) = (claimed.job.id, claimed.lease.fence);
    let result = RecordResult { tenant: acme(), job, fence, edge: None, outcome: completed() };
    assert!(scene.store.call(result).await.is_ok());
    assert_eq!(outcomes(&scene.taken(&acme(), run).await).len(), 1);
}

pub async fn a_held_job_waits_too(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let taken = scene.taken(&acme(), run).await;
    let mut turn = running(&taken);
    turn.dispatched = Vec::new();
    let job = NewJob { queue_until: Some(taken.now + LEASE), ..new_job(run, 1) };
    turn.held = vec![held_job(job.clone())];
    let _ = scene.commit(turn).await.unwrap();
    subject.elapse(LEASE * 2).await;
    assert_eq!(scene.expired().await, slice::from_ref(&job.id));
    assert_eq!(outcomes(&scene.taken(&acme(), run).await), [(job.id, JobOutcome::Unclaimed)]);
    assert!(scene.store.call(FindDue { limit: 10 }).await.unwrap().held.is_empty());
}

pub async fn an_ended_or_deleted_job_leaves_no_timeout(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let soon = |job: NewJob, now: Timestamp| NewJob { queue_until: Some(now + LEASE), ..job };
    let (ended, _) = scene.dispatched(soon).await;
    let (deleted, _) = scene.dispatched(soon).await;
    let _ = scene.store.call(DeleteRun { tenant: acme(), run: deleted }).await.unwrap();
    let cancel = CancelJob { tenant: acme(), job: new_job(ended, 1).id, by: "a test".to_owned() };
    let _ = scene.store.call(cancel).await.unwrap();
    let taken = scene.taken(&acme(), ended).await;
    let _ = scene.commit(idle(&taken)).await.unwrap();
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.next_in.is_none_or(|next| next > LEASE * 2) && due.leases.is_empty(), "{due:?}");
    subject.elapse(LEASE * 2).await;
    assert!(scene.expired().await.is_empty());
}
