//! Deferred results: due once, and never lost.

use crate::verbs::{
    AcquireDeferredResults, CancelJob, DeleteRun, ExpireLeases, ExtendJobLease, FindDue, ReadJob,
    RecordResult,
};
use std::time::Duration;

use interlock_model::Fence;
use interlock_model::job::{JobOutcome, JobState};
use interlock_model::run::Ending;

use super::Subject;
use super::deliveries::{ALMOST, DELAY, MOMENT, completed, deferred, failed, is_fenced, report};
use super::scene::{LEASE, Scene, acme, ending, globex, holder, outcomes};
use crate::StoreError;
use crate::deliveries::{
    DeferOutcome, DeferResult, DeferredResult, DeliverResult, DeliveryOutcome, IN_PROGRESS,
};
use crate::jobs::{Claimed, Heartbeat, Report};

pub async fn a_deferred_result_is_due_once_and_not_before_its_time(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    subject.elapse(Duration::from_millis(3)).await;
    scene.kept(&deferred(&claimed, 1)).await;
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert_eq!((due.deferred, due.next_in), (vec![], Some(DELAY)));
    subject.elapse(ALMOST).await;
    assert_eq!(scene.acquire_deferred(10).await, []);
    subject.elapse(MOMENT).await;
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert_eq!(due.deferred, [acme()]);
    let expected = DeferredResult {
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: completed(),
        deliveries: 1,
        waited: DELAY,
    };
    assert_eq!(scene.acquire_deferred(10).await, std::slice::from_ref(&expected));
    assert_eq!(scene.acquire_deferred(10).await, [], "an instance is delivering it");
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().deferred, []);
    assert_eq!(scene.store.call(AcquireDeferredResults { tenant: globex(), limit: 10 }).await, Ok(vec![]));

    // The instance that acquired it has died, and the worker sends a heartbeat.
    for _ in 0..IN_PROGRESS.as_millis() / (LEASE.as_millis() / 2) {
        subject.elapse(LEASE / 2).await;
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
    let again = DeferredResult { waited: DELAY + IN_PROGRESS, ..expected };
    assert_eq!(scene.acquire_deferred(10).await, [again]);
}

pub async fn due_results_are_acquired_oldest_first_up_to_the_limit(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(3).await;
    for (place, late) in [(1, 30), (0, 20), (2, 10)] {
        let delay = Duration::from_millis(late);
        scene.kept(&DeferResult { delay, ..deferred(&claimed[place], 1) }).await;
    }
    subject.elapse(Duration::from_millis(30)).await;
    let jobs =
        async |limit| scene.acquire_deferred(limit).await.into_iter().map(|it| it.job).collect::<Vec<_>>();
    assert_eq!(jobs(2).await, [claimed[2].job.id.clone(), claimed[0].job.id.clone()]);
    assert_eq!(jobs(2).await, [claimed[1].job.id.clone()]);
}

pub async fn deferring_again_counts_from_the_first_time_and_repeating_changes_nothing(
    subject: &mut dyn Subject,
) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    let before = Duration::from_secs(3);
    scene.kept(&DeferResult { waited: before, ..deferred(&claimed, 1) }).await;
    subject.elapse(DELAY).await;
    assert_eq!(scene.acquire_deferred(1).await.len(), 1);
    scene.kept(&deferred(&claimed, 2)).await;
    subject.elapse(DELAY / 2).await;
    // The worker has not heard that its result was taken, and comes again.
    scene.kept(&deferred(&claimed, 1)).await;
    scene.kept(&deferred(&claimed, 2)).await;
    subject.elapse(DELAY / 2).await;
    let due = scene.acquire_deferred(1).await.pop().expect("its second delay is over");
    assert_eq!((due.deliveries, due.waited), (2, before + DELAY * 2), "from when it came");
}

pub async fn the_first_outcome_counts_while_a_result_is_deferred(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&deferred(&claimed, 1)).await;
    let other = DeferResult { outcome: failed(), deliveries: 2, ..deferred(&claimed, 2) };
    let refused = scene.store.call(other.clone()).await;
    assert!(
        matches!(refused, Err(StoreError::Fenced { held, current }) if held == other.fence && current > held),
        "{refused:?}"
    );
    assert!(is_fenced(&scene.store.call(report(&claimed, failed())).await));
    let taken = scene.delivered(&report(&claimed, completed())).await;
    assert_eq!(outcomes(&taken), [(claimed.job.id.clone(), completed())]);
}

pub async fn only_the_holder_of_a_job_may_defer_its_result(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let guessed =
        DeferResult { fence: Fence::new(claimed[0].lease.fence.number() + 1), ..deferred(&claimed[0], 1) };
    assert!(is_fenced(&scene.store.call(guessed.clone()).await));
    let foreign = scene.store.call(DeferResult { tenant: globex(), ..deferred(&claimed[0], 1) }).await;
    assert!(matches!(foreign, Err(StoreError::NotFound { .. })), "{foreign:?}");
    let (job, fence) = (&claimed[0].job.id, claimed[0].lease.fence);
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await,
        Ok(Report::Recorded)
    );
    assert_eq!(scene.store.call(deferred(&claimed[0], 1)).await, Ok(DeferOutcome::AlreadyRecorded));
    let contradiction = DeferResult { outcome: failed(), ..deferred(&claimed[0], 1) };
    assert!(is_fenced(&scene.store.call(contradiction.clone()).await));
    subject.elapse(LEASE).await;
    assert!(is_fenced(&scene.store.call(deferred(&claimed[1], 1)).await), "its lease has expired");
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().deferred, []);
}

pub async fn a_job_whose_result_is_deferred_keeps_its_lease_beyond_the_delay(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(2).await;
    let slow = DeferResult { delay: LEASE * 5, ..deferred(&claimed[0], 1) };
    scene.kept(&slow).await;
    scene
        .kept(&DeferResult { delay: Duration::ZERO, lease: Duration::ZERO, ..deferred(&claimed[1], 1) })
        .await;
    let lease = async |claimed: &Claimed| {
        scene
            .store
            .call(ReadJob { tenant: acme(), job: claimed.job.id.clone() })
            .await
            .unwrap()
            .and_then(|view| view.lease)
            .unwrap()
    };
    let kept = lease(&claimed[0]).await;
    assert_eq!(
        kept.expires_at.since(claimed[0].lease.expires_at),
        slow.delay,
        "so long, and the lease again"
    );
    assert_eq!((kept.fence, kept.ttl), (claimed[0].lease.fence, claimed[0].lease.ttl));
    assert_eq!(lease(&claimed[1]).await, claimed[1].lease, "a lease is never cut short");
    subject.elapse(LEASE * 5 + ALMOST * 2).await;
    assert_eq!(
        scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await,
        Ok(vec![claimed[1].job.id.clone()])
    );
}

pub async fn a_heartbeat_does_not_shorten_the_lease_of_a_deferred_result(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&DeferResult { delay: LEASE * 5, ..deferred(&claimed, 1) }).await;
    let (job, fence) = (&claimed.job.id, claimed.lease.fence);
    let beat = scene
        .store
        .call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None })
        .await
        .unwrap();
    let Heartbeat::Extended { expires_at, .. } = beat else { panic!("{beat:?}") };
    assert_eq!(expires_at.since(claimed.lease.expires_at), LEASE * 5);
    subject.elapse(LEASE * 5).await;
    assert_eq!(scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
    assert_eq!(scene.acquire_deferred(1).await.len(), 1, "it is delivered at its time");
}

pub async fn a_deferred_result_is_not_lost_with_its_lease(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(3).await;
    scene.kept(&deferred(&claimed[0], 1)).await;
    scene.kept(&DeferResult { outcome: failed(), ..deferred(&claimed[1], 1) }).await;
    subject.elapse(DELAY + LEASE).await;
    let mut ended = scene.store.call(ExpireLeases { tenant: acme(), limit: 10 }).await.unwrap();
    ended.sort();
    assert_eq!(ended, claimed.iter().map(|it| it.job.id.clone()).collect::<Vec<_>>());
    let mut posted = outcomes(&scene.taken(&acme(), claimed[0].job.id.run).await);
    posted.sort_by_key(|(job, _)| job.attempt);
    let expected = [completed(), failed(), JobOutcome::Lost];
    assert_eq!(posted.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), expected);
    assert_eq!(scene.acquire_deferred(10).await, []);
    let repeated = scene.store.call(report(&claimed[0], completed())).await;
    assert_eq!(repeated, Ok(DeliveryOutcome::AlreadyRecorded), "the worker hears that it was recorded");
}

pub async fn a_deferred_result_is_deleted_with_its_job(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 6).await;
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let claimed = scene.working_at(1).await.remove(0);
        scene.kept(&deferred(&claimed, 1)).await;
        waiting.push(claimed);
    }
    let [reported, failed_for_good, taken, cancelled, revoked, deleted] = &waiting[..] else { panic!() };
    let (job, fence) = (&reported.job.id, reported.lease.fence);
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: completed(), edge: None })
            .await,
        Ok(Report::Recorded)
    );
    // An instance that gives a result up ends its job in another way.
    let (job, fence) = (&failed_for_good.job.id, failed_for_good.lease.fence);
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: failed(), edge: None })
            .await,
        Ok(Report::Recorded)
    );
    scene.delivered(&report(taken, completed())).await;
    let state = scene
        .store
        .call(CancelJob { tenant: acme(), job: cancelled.job.id.clone(), by: "a test".to_owned() })
        .await;
    assert_eq!(state, Ok(JobState::Cancelled));
    let held = scene.hold(&revoked.job.id).await;
    let _ = scene.commit(ending(&held, Ending::Cancelled)).await.expect("the run is ours");
    scene.store.call(DeleteRun { tenant: acme(), run: deleted.job.id.run }).await.expect("the run is there");
    subject.elapse(DELAY * 2).await;
    assert_eq!(scene.store.call(FindDue { limit: 10 }).await.unwrap().deferred, []);
    assert_eq!(scene.acquire_deferred(10).await, []);
}

pub async fn a_deferred_result_survives_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let claimed = scene.working_at(1).await.remove(0);
    scene.kept(&deferred(&claimed, 3)).await;
    drop(scene);
    subject.reopen().await;
    subject.elapse(DELAY).await;
    let store = subject.store();
    let due = store
        .call(AcquireDeferredResults { tenant: acme(), limit: 10 })
        .await
        .unwrap()
        .pop()
        .expect("it is kept");
    assert_eq!((due.outcome, due.deliveries, due.waited), (completed(), 3, DELAY));
    let again = DeliverResult { holder: holder(), ..report(&claimed, completed()) };
    assert!(matches!(store.call(again.clone()).await, Ok(DeliveryOutcome::Recorded(_))));
}
