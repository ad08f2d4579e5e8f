//! Workers on HTTP, as they were last seen.

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
    scene.store.drain_worker(&acme(), &worker(), true).await.unwrap();
    assert!(scene.claim(&acme(), 5).await.is_empty());
    let (job, fence) = (&held.job.id, held.lease.fence);
    assert!(matches!(scene.store.heartbeat(&acme(), job, fence).await, Ok(Heartbeat::Extended { .. })));
    let done = JobOutcome::Completed { output: json!(1) };
    assert_eq!(scene.store.report(&acme(), job, fence, done).await, Ok(Report::Recorded));
    let other = Claim { worker: name("worker-2"), jobs_max: 0, ..claim(&acme(), 1) };
    scene.store.claim(other).await.unwrap();
    scene.store.drain_worker(&acme(), &worker(), false).await.unwrap();
    assert_eq!(scene.claim(&acme(), 5).await[0].job.id, waiting);
}

pub async fn draining_is_its_tenants_own_and_stays_through_claims_and_reopenings(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let unknown = scene.store.drain_worker(&acme(), &worker(), true).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })), "{unknown:?}");
    for tenant in [acme(), globex()] {
        scene.claim(&tenant, 1).await;
    }
    scene.store.drain_worker(&acme(), &worker(), true).await.unwrap();
    subject.elapse(LATER).await;
    for tenant in [acme(), globex()] {
        scene.claim(&tenant, 1).await;
    }
    drop(scene);
    subject.reopen().await;
    let store = subject.store();
    let mut draining = Vec::new();
    for tenant in [acme(), globex()] {
        draining.push(store.worker(&tenant, &worker()).await.unwrap().map(|known| known.is_draining));
    }
    assert_eq!(draining, [Some(true), Some(false)]);
}

pub async fn a_worker_that_was_not_seen_since_is_forgotten_with_its_draining(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    scene.claim(&acme(), 1).await;
    let first = scene.store.worker(&acme(), &worker()).await.unwrap().expect("it has claimed");
    scene.store.drain_worker(&acme(), &worker(), true).await.unwrap();
    subject.elapse(LATER).await;
    scene.claim(&acme(), 1).await;
    scene.store.forget_record(&acme(), &worker(), first.last_seen_at).await.unwrap();
    let seen = scene.store.worker(&acme(), &worker()).await.unwrap().expect("it was seen since");
    assert!(seen.last_seen_at > first.last_seen_at && seen.is_draining);
    scene.store.forget_record(&globex(), &worker(), seen.last_seen_at).await.unwrap();
    scene.store.forget_record(&acme(), &worker(), seen.last_seen_at).await.unwrap();
    assert_eq!(scene.store.worker(&acme(), &worker()).await, Ok(None));
    scene.claim(&acme(), 1).await;
    let again = scene.store.worker(&acme(), &worker()).await.unwrap().expect("it has claimed");
    assert!(!again.is_draining && again.first_seen_at > first.first_seen_at);
}

pub async fn a_claim_on_behalf_of_a_worker_on_the_bus_is_not_written_down(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let run = scene.started(&acme()).await;
    let job = scene.begin(&acme(), run).await;
    let claimed = scene.store.claim(Claim { edge: Edge::Nats, ..claim(&acme(), 1) }).await.unwrap();
    assert_eq!(claimed[0].job.id, job);
    assert_eq!(scene.store.worker(&acme(), &worker()).await, Ok(None));
}
