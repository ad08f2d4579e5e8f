//! A store whose answers are lost.

use std::sync::Arc;

use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_poll::until;
use serde_json::json;

use super::{acquire, causes, release, request, show, take, with};
use crate::server::{Server, empty_store, patient};

/// A server whose store can lose every answer.
async fn with_faulty_store() -> (Server, Arc<FaultyStore>) {
    let store = Arc::new(FaultyStore::new(empty_store(), 1, Faults::NONE));
    (Server::on(store.clone(), patient()).await, store)
}

const REPLIES_LOST: Faults = Faults { replies_lost: 1_000, ..Faults::NONE };

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_found_again_under_its_request_id() {
    let (server, store) = with_faulty_store().await;
    let wanted = with(request("db", "ada"), "request_id", "once");
    store.set_faults(REPLIES_LOST);
    let problem = acquire(&server, &wanted).await.problem(503, "outcome_unknown");
    assert_eq!(problem["retry_with_same_key"], json!(true));
    assert!(problem["error"].as_str().unwrap().contains("request_id"), "{problem}");
    store.set_faults(Faults::NONE);
    let found = show(&server, "db").await.ok(200);
    let again = acquire(&server, &wanted).await.ok(200);
    assert_eq!((&again["token"], &again["fence"]), (&found["token"], &found["fence"]));
    assert_eq!(causes(&server, "db").await, ["acquired"]);
}

#[tokio::test]
async fn a_grant_without_request_id_whose_answer_was_lost_is_released() {
    let (server, store) = with_faulty_store().await;
    store.set_faults(REPLIES_LOST);
    let problem = acquire(&server, &request("db", "ada")).await.problem(503, "outcome_unknown");
    assert_eq!(problem["retry_with_same_key"], json!(false));
    store.set_faults(Faults::NONE);
    until("the lock is released before its lease expires", async || show(&server, "db").await.status == 404)
        .await;
    assert_eq!(causes(&server, "db").await, ["withdrawn", "acquired"]);
}

#[tokio::test]
async fn l19_a_release_whose_answer_was_lost_may_be_repeated() {
    let (server, store) = with_faulty_store().await;
    let grant = take(&server, "db", "ada").await;
    store.set_faults(REPLIES_LOST);
    let problem = release(&server, &grant).await.problem(503, "outcome_unknown");
    assert_eq!(problem["retry_with_same_key"], json!(true));
    store.set_faults(Faults::NONE);
    release(&server, &grant).await.ok(204);
    assert_eq!(causes(&server, "db").await, ["released", "acquired"]);
}

#[tokio::test]
async fn l16_a_renewal_whose_answer_was_lost_neither_ends_the_hold_nor_is_called_done() {
    let (server, store) = with_faulty_store().await;
    let grant = take(&server, "db", "ada").await;
    store.set_faults(REPLIES_LOST);
    super::renew(&server, &grant, 1_000_000).await.problem(503, "outcome_unknown");
    store.set_faults(Faults::NONE);
    let renewed = super::renew(&server, &grant, 1_000_000).await.ok(200);
    assert_eq!(renewed["fence"], grant["fence"]);
}
