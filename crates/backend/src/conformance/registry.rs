//! Workers on the bus, as they last spoke.

use crate::verbs::{DrainNatsWorker, ForgetNatsWorker, ReadRegistry, RecordBeat, RegisterNatsWorker};
use std::time::Duration;

use interlock_model::{Timestamp, WorkerId};

use super::Subject;
use super::scene::{acme, name};
use crate::registry::{Beat, Handshake, RegisteredWorker};
use crate::{Store, StoreError};

/// So long that two moments differ on every clock.
const MOMENT: Duration = Duration::from_millis(5);

fn handshake(topics: &[&str]) -> Handshake {
    Handshake { topics: topics.iter().map(|topic| name(topic)).collect() }
}

fn beat(jobs_active: u32) -> Beat {
    Beat {
        capabilities: vec!["gpu".to_owned(), "a \"quoted\" one".to_owned()],
        pool: Some("west".to_owned()),
        tenant: Some(acme()),
        jobs_active,
        jobs_max: 8,
    }
}

async fn now(store: &Store) -> Timestamp {
    store.call(ReadRegistry).await.unwrap().now
}

async fn known(store: &Store) -> Vec<RegisteredWorker> {
    store.call(ReadRegistry).await.unwrap().workers
}

async fn names(store: &Store) -> Vec<String> {
    known(store).await.iter().map(|it| it.worker.to_string()).collect()
}

pub async fn a_registered_worker_is_listed_with_its_topics_and_the_stores_time(subject: &mut dyn Subject) {
    let store = subject.store();
    assert_eq!(known(&store).await, []);
    let earliest = now(&store).await;
    let said = [("cap-b@host:1", handshake(&["build", "test"])), ("cap-a", handshake(&[]))];
    for (worker, handshake) in &said {
        store.call(RegisterNatsWorker { worker: name(worker), handshake: handshake.clone() }).await.unwrap();
    }
    let found = store.call(ReadRegistry).await.unwrap();
    let listed: Vec<_> = found.workers.iter().map(|it| (it.worker.as_str(), it.handshake.clone())).collect();
    let [second, first] = said;
    assert_eq!(listed, [(first.0, Some(first.1)), (second.0, Some(second.1))], "by name");
    for worker in &found.workers {
        assert_eq!(worker.beat, None);
        let at = worker.last_seen_at;
        assert!(earliest <= at && at <= found.now, "{earliest} {at} {}", found.now);
    }
}

pub async fn a_heartbeat_keeps_the_handshake_and_records_its_time(subject: &mut dyn Subject) {
    let store = subject.store();
    let worker: WorkerId = name("cap-a");
    store
        .call(RegisterNatsWorker { worker: worker.clone(), handshake: handshake(&["build"]) })
        .await
        .unwrap();
    let introduced = known(&store).await.remove(0);
    for said in [beat(1), Beat::default(), beat(3)] {
        subject.elapse(MOMENT).await;
        let before = known(&store).await.remove(0).beat;
        assert_eq!(
            store.call(RecordBeat { worker: worker.clone(), beat: said.clone() }).await,
            Ok(before),
            "it tells what was said before"
        );
        let found = known(&store).await;
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].handshake, &found[0].beat), (&introduced.handshake, &Some(said)));
        assert!(found[0].last_seen_at > introduced.last_seen_at);
    }
}

pub async fn a_heartbeat_alone_does_not_register_a_worker(subject: &mut dyn Subject) {
    let store = subject.store();
    store.call(RecordBeat { worker: name("cap-a"), beat: beat(1) }).await.unwrap();
    let found = known(&store).await;
    assert_eq!((found.len(), &found[0].handshake, &found[0].beat), (1, &None, &Some(beat(1))));
}

pub async fn registering_again_keeps_the_last_heartbeat(subject: &mut dyn Subject) {
    let store = subject.store();
    let worker: WorkerId = name("cap-a");
    store
        .call(RegisterNatsWorker { worker: worker.clone(), handshake: handshake(&["build"]) })
        .await
        .unwrap();
    store.call(RecordBeat { worker: worker.clone(), beat: beat(1) }).await.unwrap();
    let before = known(&store).await.remove(0);
    subject.elapse(MOMENT).await;
    store.call(RegisterNatsWorker { worker: worker.clone(), handshake: handshake(&["test"]) }).await.unwrap();
    let found = known(&store).await;
    assert_eq!((found.len(), &found[0].beat), (1, &Some(beat(1))));
    assert_eq!(found[0].handshake, Some(handshake(&["test"])));
    assert!(found[0].last_seen_at > before.last_seen_at);
}

pub async fn a_worker_is_forgotten_unless_it_was_heard_since(subject: &mut dyn Subject) {
    let store = subject.store();
    for worker in ["cap-a", "cap-b"] {
        store
            .call(RegisterNatsWorker { worker: name(worker), handshake: handshake(&["build"]) })
            .await
            .unwrap();
    }
    let looked_at = now(&store).await;
    subject.elapse(MOMENT).await;
    store.call(RecordBeat { worker: name("cap-a"), beat: beat(1) }).await.unwrap();
    store.call(ForgetNatsWorker { worker: name("cap-a"), unless_after: looked_at }).await.unwrap();
    store.call(ForgetNatsWorker { worker: name("cap-x"), unless_after: looked_at }).await.unwrap();
    assert_eq!(names(&store).await, ["cap-a", "cap-b"]);
    store.call(ForgetNatsWorker { worker: name("cap-b"), unless_after: looked_at }).await.unwrap();
    assert_eq!(names(&store).await, ["cap-a"]);
    let spoke_at = known(&store).await[0].last_seen_at;
    store.call(ForgetNatsWorker { worker: name("cap-a"), unless_after: spoke_at }).await.unwrap();
    assert_eq!(known(&store).await, [], "a word at that very moment is not a later one");
}

pub async fn nats_workers_survive_a_reopening(subject: &mut dyn Subject) {
    let store = subject.store();
    store.call(RegisterNatsWorker { worker: name("cap-a"), handshake: handshake(&["build"]) }).await.unwrap();
    store.call(RecordBeat { worker: name("cap-a"), beat: beat(2) }).await.unwrap();
    store.call(RecordBeat { worker: name("cap-b"), beat: Beat::default() }).await.unwrap();
    let before = known(&store).await;
    assert_eq!(before.len(), 2);
    drop(store);
    subject.reopen().await;
    assert_eq!(known(&subject.store()).await, before);
}

pub async fn a_nats_worker_drains_until_it_is_forgotten(subject: &mut dyn Subject) {
    let store = subject.store();
    let worker: WorkerId = name("cap-a");
    assert!(matches!(
        store.call(DrainNatsWorker { worker: worker.clone(), is_draining: true }).await,
        Err(StoreError::NotFound { .. })
    ));
    for worker in ["cap-a", "cap-b"] {
        store
            .call(RegisterNatsWorker { worker: name(worker), handshake: handshake(&["build"]) })
            .await
            .unwrap();
    }
    let draining =
        async |store: &Store| -> Vec<bool> { known(store).await.iter().map(|it| it.is_draining).collect() };
    let spoke_at = known(&store).await[0].last_seen_at;
    subject.elapse(MOMENT).await;
    store.call(DrainNatsWorker { worker: worker.clone(), is_draining: true }).await.unwrap();
    assert_eq!(known(&store).await[0].last_seen_at, spoke_at, "it has not spoken by that");
    store.call(RecordBeat { worker: worker.clone(), beat: beat(1) }).await.unwrap();
    store.call(RegisterNatsWorker { worker: worker.clone(), handshake: handshake(&["test"]) }).await.unwrap();
    drop(store);
    subject.reopen().await;
    let store = subject.store();
    assert_eq!(draining(&store).await, [true, false]);
    store.call(DrainNatsWorker { worker: worker.clone(), is_draining: false }).await.unwrap();
    assert_eq!(draining(&store).await, [false, false]);
    store.call(DrainNatsWorker { worker: worker.clone(), is_draining: true }).await.unwrap();
    store.call(ForgetNatsWorker { worker: worker.clone(), unless_after: now(&store).await }).await.unwrap();
    store
        .call(RegisterNatsWorker { worker: worker.clone(), handshake: handshake(&["build"]) })
        .await
        .unwrap();
    assert_eq!(draining(&store).await, [false, false]);
}
