//! Waiting for a lock. Polls are so rare here that a waiter must be woken.

use interlock_backend::Store;
use interlock_backend::verbs::ReadLock;
use std::time::Duration;

use interlock_backend::locks::AcquireLock;
use interlock_control::Settings;
use interlock_model::lock::{LockLimits, LockMode, LockName};
use interlock_poll::{LIMIT, until};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{acquire, causes, release, request, show, take, until_waiting, wait_for, with};
use crate::server::{Server, empty_store, patient};

fn name() -> LockName {
    LockName::Of("default".parse().unwrap(), "db".parse().unwrap())
}

#[tokio::test]
async fn a_held_lock_is_refused_with_its_holder_its_age_and_the_callers_position() {
    let server = Server::start().await;
    take(&server, "db", "ada").await;
    let answer = acquire(&server, &request("db", "bob")).await;
    let problem = answer.problem(409, "lock_held");
    assert_eq!((&problem["holder"], &problem["position"]), (&json!("ada"), &json!(1)));
    assert!(problem["held_ms"].as_u64().unwrap() < 60_000);
    let wait = problem["retry_after_ms"].as_u64().unwrap();
    assert!((100..=60_000).contains(&wait), "{wait}");
    assert_eq!(answer.header("retry-after"), Some(wait.div_ceil(1_000).to_string().as_str()));
    let _waiting = wait_for(&server, request("db", "bob"));
    until_waiting(&server, "db", 1).await;
    assert_eq!(acquire(&server, &request("db", "cleo")).await.problem(409, "lock_held")["position"], 2);
}

#[tokio::test]
async fn waiters_acquire_the_lock_in_the_order_of_their_requests() {
    let server = Server::start().await;
    let mut held = take(&server, "db", "ada").await;
    let mut queue = Vec::new();
    for number in 1..=5 {
        queue.push(wait_for(&server, request("db", &format!("w{number}"))));
        until_waiting(&server, "db", number).await;
    }
    for (number, waiting) in (1..).zip(queue) {
        release(&server, &held).await.ok(204);
        held = waiting.await.unwrap().ok(200);
        assert_eq!(held["owner"], format!("w{number}"));
        assert_eq!(show(&server, "db").await.ok(200)["waiting"], 5 - number);
    }
}

#[tokio::test]
async fn an_expired_lease_goes_to_the_next_waiter() {
    let server = Server::start().await;
    acquire(&server, &with(request("db", "ada"), "ttl_ms", 200)).await.ok(200);
    let next = wait_for(&server, request("db", "bob")).await.unwrap().ok(200);
    assert_eq!(next["owner"], "bob");
    assert_eq!(causes(&server, "db").await, ["acquired", "expired", "acquired"]);
}

#[tokio::test]
async fn a_waiter_leaves_the_queue_when_its_wait_ends() {
    let server = Server::start().await;
    take(&server, "db", "ada").await;
    let wanted = with(request("db", "bob"), "wait_ms", 50);
    assert_eq!(acquire(&server, &wanted).await.problem(409, "lock_held")["holder"], "ada");
    assert_eq!(show(&server, "db").await.ok(200)["waiting"], 0);
}

#[tokio::test]
async fn the_queue_is_shown_with_the_wait_of_each() {
    let server = Server::start().await;
    take(&server, "db", "ada").await;
    let _first = wait_for(&server, with(request("db", "bob"), "mode", "shared"));
    until_waiting(&server, "db", 1).await;
    let _second = wait_for(&server, request("db", "cleo"));
    until_waiting(&server, "db", 2).await;
    let view = show(&server, "db").await.ok(200);
    let line = view["line"].as_array().unwrap();
    let shown: Vec<_> = line.iter().map(|one| (&one["owner"], &one["mode"], &one["position"])).collect();
    let (shared, exclusive) = (json!("shared"), json!("exclusive"));
    assert_eq!(shown, [(&json!("bob"), &shared, &json!(1)), (&json!("cleo"), &exclusive, &json!(2))]);
    assert!(line.iter().all(|one| one["waiting_ms"].as_u64().unwrap() < 60_000));
}

#[tokio::test]
async fn l15_a_client_that_hangs_up_leaves_the_line_at_once() {
    let server = Server::start().await;
    let held = take(&server, "db", "ada").await;
    let mut gone = TcpStream::connect(server.address).await.unwrap();
    let wanted = with(with(request("db", "gone"), "wait_ms", 60_000), "request_id", "named");
    gone.write_all(&server.post("/api/v1/locks/acquire").json(&wanted).written()).await.unwrap();
    until_waiting(&server, "db", 1).await;
    let next = wait_for(&server, request("db", "bob"));
    until_waiting(&server, "db", 2).await;
    drop(gone);
    // A waiter that is only silent would stay in the queue for minutes.
    until_waiting(&server, "db", 1).await;
    assert_eq!(show(&server, "db").await.ok(200)["line"][0]["owner"], "bob");
    release(&server, &held).await.ok(204);
    assert_eq!(next.await.unwrap().ok(200)["owner"], "bob");
    assert_eq!(causes(&server, "db").await, ["acquired", "released", "acquired"]);
}

#[tokio::test]
async fn a_repeated_request_keeps_its_position() {
    let server = Server::start().await;
    let held = take(&server, "db", "ada").await;
    let named = with(request("db", "bob"), "request_id", "named");
    let first = wait_for(&server, named.clone());
    until_waiting(&server, "db", 1).await;
    let _other = wait_for(&server, request("db", "cleo"));
    until_waiting(&server, "db", 2).await;
    let calls =
        async || server.store.call(ReadLock { lock: name() }).await.unwrap().unwrap().line[0].calls.clone();
    let before = calls().await;
    let again = wait_for(&server, named);
    until("the second call waits as well", async || calls().await != before).await;
    // The end of the first call does not remove the waiter any more.
    first.abort();
    release(&server, &held).await.ok(204);
    let grant = again.await.unwrap().ok(200);
    assert_eq!(grant["owner"], "bob");
}

#[tokio::test]
async fn a_closing_server_ends_the_wait() {
    let mut server = Server::start().await;
    take(&server, "db", "ada").await;
    let waiting = wait_for(&server, request("db", "bob"));
    until_waiting(&server, "db", 1).await;
    server.shutdown.cancel();
    waiting.await.unwrap().problem(409, "lock_held");
    tokio::time::timeout(LIMIT, &mut server.serving).await.expect("it closes").unwrap();
}

#[tokio::test]
async fn a_free_lock_that_waits_for_another_request_has_no_holder() {
    let server = Server::start().await;
    let held = take(&server, "db", "ada").await;
    let first = AcquireLock { stay: Some(LIMIT), ..of_silent(LockLimits::default()) };
    let _ = server.store.call(first.clone()).await.unwrap();
    release(&server, &held).await.ok(204);
    let problem = acquire(&server, &request("db", "bob")).await.problem(409, "lock_held");
    assert_eq!(problem.get("holder"), Some(&json!(null)), "{problem}");
    assert_eq!((&problem["held_ms"], &problem["position"]), (&json!(0), &json!(2)));
    let expected = "db has no recorded holder: another waiter is first, or its Redis key contains a foreign value, and the \
        caller is at position 2 in its queue";
    assert_eq!(problem["error"], expected);
}

/// The request of a gateway that dies right after it.
fn of_silent(limits: LockLimits) -> AcquireLock {
    AcquireLock {
        lock: name(),
        owner: "silent".parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl: LIMIT,
        request: "silent".parse().unwrap(),
        call: "silent".parse().unwrap(),
        held: None,
        stay: None,
        limits,
    }
}

#[tokio::test]
async fn a_silent_waiter_does_not_block_the_queue() {
    let stages = Settings { lock_silence: Duration::from_millis(300), ..patient() };
    let store = empty_store();
    let server = Server::on(store.clone(), stages.clone()).await;
    let held = take(&server, "db", "ada").await;
    let silent = AcquireLock { stay: Some(stages.lock_silence), ..of_silent(stages.lock_limits) };
    let _ = Store::new(store.clone()).call(silent.clone()).await.unwrap();
    let next = wait_for(&server, request("db", "bob"));
    release(&server, &held).await.ok(204);
    assert_eq!(next.await.unwrap().ok(200)["owner"], "bob");
}
