//! A store whose answers are lost.

use std::sync::Arc;

use interlock_backend::faulty::{Faults, FaultyStore};
use serde_json::json;

use super::{acquire, ask, causes, release, show, take, with};
use crate::client::PATIENCE;
use crate::server::{Server, empty_store, patient};

/// A server whose store can be made to lose every answer.
async fn on_a_bad_line() -> (Server, Arc<FaultyStore>) {
    let store = Arc::new(FaultyStore::new(empty_store(), 1, Faults::NONE));
    (Server::on(store.clone(), patient()).await, store)
}

const DEAF: Faults = Faults { replies_lost: 1_000, ..Faults::NONE };

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_found_again_under_its_request_id() {
    let (server, store) = on_a_bad_line().await;
    let asked = with(ask("db", "ada"), "request_id", "once");
    store.set_faults(DEAF);
    let problem = acquire(&server, &asked).await.problem(503, "outcome_unknown");
    assert_eq!(problem["retry_with_same_key"], json!(true));
    assert!(problem["error"].as_str().unwrap().contains("request_id"), "{problem}");
    store.set_faults(Faults::NONE);
    let found = show(&server, "db").await.ok(200);
    let again = acquire(&server, &asked).await.ok(200);
    assert_eq!((&again["token"], &again["fence"]), (&found["token"], &found["fence"]));
    assert_eq!(causes(&server, "db").await, ["acquired"]);
}

#[tokio::test]
async fn a_grant_that_nobody_could_ask_for_again_is_given_back() {
    let (server, store) = on_a_bad_line().await;
    store.set_faults(DEAF);
    let problem = acquire(&server, &ask("db", "ada")).await.problem(503, "outcome_unknown");
    assert_eq!(problem["retry_with_same_key"], json!(false));
    store.set_faults(Faults::NONE);
    let given_back = async { while show(&server, "db").await.status != 404 {} };
    tokio::time::timeout(PATIENCE, given_back).await.expect("it does not wait for its lease to end");
    assert_eq!(causes(&server, "db").await, ["withdrawn", "acquired"]);
}

#[tokio::test]
async fn l19_a_release_whose_answer_was_lost_may_be_repeated() {
    let (server, store) = on_a_bad_line().await;
    let grant = take(&server, "db", "ada").await;
    store.set_faults(DEAF);
    let problem = release(&server, &grant).await.problem(503, "outcome_unknown");
    assert_eq!(problem["retry_with_same_key"], json!(true));
    store.set_faults(Faults::NONE);
    release(&server, &grant).await.ok(204);
    assert_eq!(causes(&server, "db").await, ["released", "acquired"]);
}

#[tokio::test]
async fn l16_a_renewal_whose_answer_was_lost_neither_ends_the_hold_nor_is_called_done() {
    let (server, store) = on_a_bad_line().await;
    let grant = take(&server, "db", "ada").await;
    store.set_faults(DEAF);
    super::renew(&server, &grant, 1_000_000).await.problem(503, "outcome_unknown");
    store.set_faults(Faults::NONE);
    let renewed = super::renew(&server, &grant, 1_000_000).await.ok(200);
    assert_eq!(renewed["fence"], grant["fence"]);
}
