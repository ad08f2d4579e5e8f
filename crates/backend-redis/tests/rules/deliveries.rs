//! Results under the lock of their run: what a lost reply, a foreign lock and a dead instance do to them.

use interlock_backend::verbs::{AcquireDeferredResults, AcquireRun, ReadJob, RequestCancel};
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::ManualClock;
use interlock_backend::deliveries::{DeferOutcome, DeferResult, DeliverResult, DeliveryOutcome};
use interlock_backend::jobs::Claimed;
use interlock_backend::{Effect, StoreError};
use interlock_model::Timestamp;
use interlock_model::job::JobOutcome;
use interlock_model::scheduling::Edge;
use serde_json::json;

use interlock_poll::until;

use super::lost_replies::{Scene, hang};
use super::{LEASE, acme, claim, idle, name, open, open_impatient, open_on, server, started};

const WELL: &str = "all is well";

fn report(claimed: &Claimed, holder: &str) -> DeliverResult {
    DeliverResult {
        edge: None,
        tenant: acme(),
        job: claimed.job.id.clone(),
        fence: claimed.lease.fence,
        outcome: JobOutcome::completed(json!(WELL)),
        holder: name(holder),
        lease: LEASE,
    }
}

fn put_off(claimed: &Claimed, delay: Duration) -> DeferResult {
    let DeliverResult { tenant, job, fence, outcome, .. } = report(claimed, "engine-1");
    DeferResult {
        tenant,
        job,
        fence,
        outcome,
        deliveries: 1,
        waited: Duration::ZERO,
        delay,
        lease: LEASE,
        edge: None,
    }
}

#[tokio::test]
async fn a_result_counts_for_a_lease_of_a_release_that_recorded_no_edge() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    let over_http = DeliverResult { edge: Some(Edge::Http), ..report(&held, "engine-7") };
    assert!(matches!(store.call(over_http.clone()).await, Err(StoreError::Conflict(_))));
    let key = format!("wf:job:{{acme}}:{}", held.job.id);
    assert_eq!(server.command(&["HDEL", &key, "edge"]).await.unwrap(), "1");
    assert!(matches!(store.call(over_http).await, Ok(DeliveryOutcome::Recorded(_))));
}

#[tokio::test]
async fn a_result_whose_reply_was_lost_brings_its_run_once_under_one_fence() {
    let scene = Scene::new().await;
    let run = started(&scene.store, 1, true).await;
    let held = claim(&scene.store, "worker-1").await.pop().unwrap();
    scene.lose_reply_to(WELL);
    let answer = scene.store.call(report(&held, "engine-7")).await.unwrap();
    let DeliveryOutcome::Recorded(taken) = answer else { panic!("expected the run, got {answer:?}") };
    assert_eq!((taken.start.run, taken.inbox.len(), taken.inbox_end), (run, 1, 1));
    assert_eq!(
        scene.store.call(AcquireRun { tenant: acme(), run, holder: name("engine-8"), lease: LEASE }).await,
        Ok(None)
    );
    let committed = scene.store.call(idle(&taken)).await.unwrap();
    assert!(!committed.has_more, "its run got it once");
    let again = scene.store.call(report(&held, "engine-7")).await;
    assert_eq!(again, Ok(DeliveryOutcome::AlreadyRecorded));
}

#[tokio::test]
async fn a_run_that_came_with_an_answer_that_never_arrived_is_taken_again_by_the_same_process() {
    let server = server().await;
    let store = open_impatient(&server.url()).await;
    // From now on the server knows the script, and runs it when it wakes.
    started(&store, 1, true).await;
    let first = claim(&store, "worker-1").await.pop().unwrap();
    assert!(matches!(store.call(report(&first, "instance-1")).await, Ok(DeliveryOutcome::Recorded(_))));
    let run = started(&store, 2, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    hang(&server, async {
        let lost = store.call(report(&held, "instance-1")).await;
        assert!(matches!(lost, Err(StoreError::Unavailable { effect: Effect::Unknown, .. })), "{lost:?}");
    })
    .await;
    until("the result was recorded in the end", async || {
        server.command(&["EXISTS", &format!("cordum:wf:run:lock:{run}")]).await.unwrap() == "1"
    })
    .await;
    assert_eq!(
        store.call(AcquireRun { tenant: acme(), run, holder: name("instance-2"), lease: LEASE }).await,
        Ok(None),
        "it is held"
    );
    let taken = store
        .call(AcquireRun { tenant: acme(), run, holder: name("instance-1"), lease: LEASE })
        .await
        .unwrap();
    assert_eq!(taken.expect("by us, who did not know of it").inbox.len(), 1);
}

#[tokio::test]
async fn due_results_are_acquired_again_when_the_reply_was_lost() {
    let scene = Scene::new().await;
    started(&scene.store, 1, true).await;
    let held = claim(&scene.store, "worker-1").await.pop().unwrap();
    assert_eq!(scene.store.call(put_off(&held, Duration::ZERO)).await, Ok(DeferOutcome::Deferred));
    // An argument that no other call of this test has.
    scene.lose_reply_to("limit");
    let due = scene.store.call(AcquireDeferredResults { tenant: acme(), limit: 10 }).await.unwrap();
    assert_eq!(due.len(), 1);
    assert_eq!((&due[0].job, due[0].fence), (&held.job.id, held.lease.fence));
    assert_eq!(scene.store.call(AcquireDeferredResults { tenant: acme(), limit: 10 }).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_foreign_value_in_the_lock_makes_the_run_busy_and_is_left_alone() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    let lock = format!("cordum:wf:run:lock:{run}");
    server.command(&["SET", &lock, "another program"]).await.unwrap();
    assert_eq!(store.call(report(&held, "engine-1")).await, Ok(DeliveryOutcome::Busy));
    assert_eq!(server.command(&["GET", &lock]).await.unwrap(), "another program");
    assert_eq!(server.command(&["EXISTS", &format!("wf:inbox:{{acme}}:{run}")]).await.unwrap(), "0");
    server.command(&["DEL", &lock]).await.unwrap();
    let taken = store.call(report(&held, "engine-1")).await;
    assert!(matches!(taken, Ok(DeliveryOutcome::Recorded(_))), "{taken:?}");
    let shown = server.command(&["GET", &lock]).await.unwrap();
    assert!(shown.contains("\"owner\":\"engine-1\""), "{shown}");
}

#[tokio::test]
async fn a_run_of_an_instance_that_is_gone_keeps_no_result_waiting() {
    let server = server().await;
    let clock = Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000)));
    let first = open_on(&server.url(), "first", clock.clone()).await;
    let second = open_on(&server.url(), "second", clock.clone()).await;
    let run = started(&first, 1, true).await;
    let held = claim(&first, "worker-1").await.pop().unwrap();
    let _ = first.call(RequestCancel { tenant: acme(), run, by: "a test".to_owned() }).await.unwrap();
    assert!(
        first
            .call(AcquireRun { tenant: acme(), run, holder: name("first"), lease: LEASE })
            .await
            .unwrap()
            .is_some()
    );
    drop(first);
    assert_eq!(second.call(report(&held, "second")).await, Ok(DeliveryOutcome::Busy));
    clock.advance(Duration::from_secs(11));
    until("the second instance learns that the first is offline", async || {
        matches!(second.call(report(&held, "second")).await, Ok(DeliveryOutcome::Recorded(_)))
    })
    .await;
}

#[tokio::test]
async fn the_lock_of_a_job_lasts_as_long_as_its_lease_when_its_result_is_put_off() {
    let server = server().await;
    let store = open(&server.url()).await;
    started(&store, 1, true).await;
    let held = claim(&store, "worker-1").await.pop().unwrap();
    let lock = format!("cordum:scheduler:job:{}", held.job.id);
    assert_eq!(store.call(put_off(&held, LEASE * 3)).await, Ok(DeferOutcome::Deferred));
    let left: u128 = server.command(&["PTTL", &lock]).await.unwrap().parse().unwrap();
    assert!((LEASE * 3).as_millis() < left && left <= (LEASE * 4).as_millis(), "{left} ms");
    let shown = super::asking::shown(&server, &lock).await;
    let lease = store
        .call(ReadJob { tenant: acme(), job: held.job.id.clone() })
        .await
        .unwrap()
        .unwrap()
        .lease
        .unwrap();
    assert_eq!(shown["expires_at"].as_u64(), Some(lease.expires_at.as_millis()));
}
