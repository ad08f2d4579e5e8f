//! Faults that are planted straight into Redis, and what the slow loops' verbs make of them.

use interlock_backend::reconcile::{RequeuedJobs, SlotDrift};
use interlock_backend::verbs::{ListActiveRuns, RepairSlots, RequeueJobs};

use super::{acme, name, open, server, started};

#[tokio::test]
async fn slots_are_brought_to_agree_with_the_runs_and_a_damaged_run_does_not_stop_that() {
    let redis = server().await;
    let store = open(&redis.url()).await;
    let (held, without) = (started(&store, 1, true).await, started(&store, 2, true).await);
    let command = async |words: &[&str]| redis.command(words).await.unwrap();
    command(&["SREM", "wf:runs:active:{acme}", &without.to_string()]).await;
    command(&["SADD", "wf:runs:active:{acme}", "01900000-0000-7000-8000-000000000001"]).await;
    command(&["ZADD", "wf:runs:{acme}", "0", "01900000-0000-7000-8000-000000000002"]).await;
    command(&["SET", "wf:run:{acme}:01900000-0000-7000-8000-000000000002", "damaged"]).await;
    let drift = SlotDrift { found: 3, repaired: 2, next: None };
    assert_eq!(store.call(RepairSlots { tenant: acme(), after: None, limit: 10 }).await, Ok(drift));
    let mut active = store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await.unwrap();
    active.sort();
    assert_eq!(active, [held, without]);
    assert_eq!(
        store.call(RepairSlots { tenant: acme(), after: None, limit: 10 }).await,
        Ok(SlotDrift { found: 1, repaired: 0, next: None })
    );
}

#[tokio::test]
async fn a_job_in_no_queue_is_put_back_once() {
    let redis = server().await;
    let store = open(&redis.url()).await;
    let run = started(&store, 1, true).await;
    redis.command(&["DEL", "wf:queue:{acme}:build"]).await.unwrap();
    redis.command(&["SET", "wf:job:{acme}:damaged", "1"]).await.unwrap();
    redis.command(&["ZADD", "wf:jobs:{acme}", "0", "999999999999999/damaged"]).await.unwrap();
    let replayed = store.call(RequeueJobs { tenant: acme(), limit: 10 }).await;
    let expected =
        RequeuedJobs { waiting: vec![name("build")], put_back: vec![name(&format!("{run}:build@1"))] };
    assert_eq!(replayed, Ok(expected.clone()));
    let again = RequeuedJobs { put_back: Vec::new(), ..expected };
    assert_eq!(store.call(RequeueJobs { tenant: acme(), limit: 10 }).await, Ok(again));
}
