//! Workers on HTTP, as they were last seen.

use crate::verbs::{DrainWorker, ExtendJobLease, ForgetWorker, ReadWorker, RecordResult};
use std::time::Duration;

use interlock_model::WorkerId;
use interlock_model::job::JobOutcome;
use interlock_model::scheduling::Edge;
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, claim, globex, name};
use crate::StoreError;
use crate::jobs::{Claim, Heartbeat, Report};

/// So long that a worker is written down again.
const LATER: Duration = Duration::from_millis(1_100);

fn worker() -> WorkerId {
    claim(&acme(), 1).worker
}

pub async fn a_draining_worker_is_given_nothing_and_keeps_what_it_has(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let (_, held) = scene.working(&acme()).await;
    let run = scene.started(&acme()).await;
    let waiting = scene.begin(&acme(), run).await;
    scene.store.call(DrainWorker { tenant: acme(), worker: worker(), is_draining: true }).await.unwrap();
    assert!(scene.claim(&acme(), 5).await.is_empty());
    let (job, fence) = (&held.job.id, held.lease.fence);
    assert!(matches!(
        scene.store.call(ExtendJobLease { tenant: acme(), job: job.clone(), fence, term: None }).await,
        Ok(Heartbeat::Extended { .. })
    ));
    let done = JobOutcome::completed(json!(1));
    assert_eq!(
        scene
            .store
            .call(RecordResult { tenant: acme(), job: job.clone(), fence, outcome: done, edge: None })
            .await,
        Ok(Report::Recorded)
    );
    let other = Claim { worker: name("worker-2"), jobs_max: 0, ..claim(&acme(), 1) };
    scene.store.call(other).await.unwrap();
    scene.store.call(DrainWorker { tenant: acme(), worker: worker(), is_draining: false }).await.unwrap();
    assert_eq!(scene.claim(&acme(), 5).await[0].job.id, waiting);
}

pub async fn draining_is_its_tenants_own_and_stays_through_claims_and_reopenings(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let unknown = scene.store.call(DrainWorker { tenant: acme(), worker: worker(), is_draining: true }).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })), "{unknown:?}");
    for tenant in [acme(), globex()] {
        scene.claim(&tenant, 1).await;
    }
    scene.store.call(DrainWorker { tenant: acme(), worker: worker(), is_draining: true }).await.unwrap();
    subject.elapse(LATER).await;
    for tenant in [acme(), globex()] {
        scene.claim(&tenant, 1).await;
    }
    drop(scene);
    subject.reopen().await;
    let store = subject.store();
    let mut draining = Vec::new();
    for tenant in [acme(), globex()] {
        draining.push(
            store
                .call(ReadWorker { tenant: tenant.clone(), worker: worker() })
                .await
                .unwrap()
                .map(|known| known.is_draining),
        );
    }
    assert_eq!(draining, [Some(true), Some(false)]);
}

pub async fn a_worker_that_was_not_seen_since_is_forgotten_with_its_draining(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    scene.claim(&acme(), 1).await;
    let first = scene
        .store
        .call(ReadWorker { tenant: acme(), worker: worker() })
        .await
        .unwrap()
        .expect("it has claimed");
    scene.store.call(DrainWorker { tenant: acme(), worker: worker(), is_draining: true }).await.unwrap();
    subject.elapse(LATER).await;
    scene.claim(&acme(), 1).await;
    scene
        .store
        .call(ForgetWorker { tenant: acme(), worker: worker(), unless_after: first.last_seen_at })
        .await
        .unwrap();
    let seen = scene
        .store
        .call(ReadWorker { tenant: acme(), worker: worker() })
        .await
        .unwrap()
        .expect("it was seen since");
    assert!(seen.last_seen_at > first.last_seen_at && seen.is_draining);
    scene
        .store
        .call(ForgetWorker { tenant: globex(), worker: worker(), unless_after: seen.last_seen_at })
        .await
        .unwrap();
    scene
        .store
        .call(ForgetWorker { tenant: acme(), worker: worker(), unless_after: seen.last_seen_at })
        .await
        .unwrap();
    assert_eq!(scene.store.call(ReadWorker { tenant: acme(), worker: worker() }).await, Ok(None));
    scene.claim(&acme(), 1).await;
    let again = scene
        .store
        .call(ReadWorker { tenant: acme(), worker: worker() })
        .await
        .unwrap()
        .expect("it has claimed");
    assert!(!again.is_draining && again.first_seen_at > first.first_seen_at);
}

pub async fn a_claim_for_a_nats_worker_is_not_recorded(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let run = scene.started(&acme()).await;
    let job = scene.begin(&acme(), run).await;
    let claimed = scene.store.call(Claim { edge: Edge::Nats, ..claim(&acme(), 1) }).await.unwrap();
    assert_eq!(claimed[0].job.id, job);
    assert_eq!(scene.store.call(ReadWorker { tenant: acme(), worker: worker() }).await, Ok(None));
}
