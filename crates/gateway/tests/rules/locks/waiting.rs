//! Standing in line. Nobody looks by themselves in time here: who gets on was woken.

use std::time::Duration;

use interlock_backend::locks::Acquire;
use interlock_control::Settings;
use interlock_model::lock::{LockLimits, LockMode, LockName};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{acquire, ask, causes, release, show, take, until_waiting, wait_for, with};
use crate::client::PATIENCE;
use crate::server::{Server, empty_store, patient};

fn name() -> LockName {
    LockName::Of("default".parse().unwrap(), "db".parse().unwrap())
}

#[tokio::test]
async fn a_held_lock_is_refused_with_its_holder_its_age_and_the_callers_place() {
    let server = Server::start().await;
    take(&server, "db", "ada").await;
    let answer = acquire(&server, &ask("db", "bob")).await;
    let problem = answer.problem(409, "lock_held");
    assert_eq!((&problem["holder"], &problem["position"]), (&json!("ada"), &json!(1)));
    assert!(problem["held_ms"].as_u64().unwrap() < 60_000);
    let wait = problem["retry_after_ms"].as_u64().unwrap();
    assert!((100..=60_000).contains(&wait), "{wait}");
    assert_eq!(answer.header("retry-after"), Some(wait.div_ceil(1_000).to_string().as_str()));
    let _waiting = wait_for(&server, ask("db", "bob"));
    until_waiting(&server, "db", 1).await;
    assert_eq!(acquire(&server, &ask("db", "cleo")).await.problem(409, "lock_held")["position"], 2);
}

#[tokio::test]
async fn those_in_line_get_the_lock_one_by_one_in_the_order_in_which_they_came() {
    let server = Server::start().await;
    let mut held = take(&server, "db", "ada").await;
    let mut line = Vec::new();
    for number in 1..=5 {
        line.push(wait_for(&server, ask("db", &format!("w{number}"))));
        until_waiting(&server, "db", number).await;
    }
    for (number, waiting) in (1..).zip(line) {
        release(&server, &held).await.ok(204);
        held = waiting.await.unwrap().ok(200);
        assert_eq!(held["owner"], format!("w{number}"));
        assert_eq!(show(&server, "db").await.ok(200)["waiting"], 5 - number);
    }
}

#[tokio::test]
async fn a_hold_that_runs_out_is_handed_on() {
    let server = Server::start().await;
    acquire(&server, &with(ask("db", "ada"), "ttl_ms", 200)).await.ok(200);
    let next = wait_for(&server, ask("db", "bob")).await.unwrap().ok(200);
    assert_eq!(next["owner"], "bob");
    assert_eq!(causes(&server, "db").await, ["acquired", "expired", "acquired"]);
}

#[tokio::test]
async fn who_has_waited_in_vain_stands_in_line_no_more() {
    let server = Server::start().await;
    take(&server, "db", "ada").await;
    let asked = with(ask("db", "bob"), "wait_ms", 50);
    assert_eq!(acquire(&server, &asked).await.problem(409, "lock_held")["holder"], "ada");
    assert_eq!(show(&server, "db").await.ok(200)["waiting"], 0);
}

#[tokio::test]
async fn the_line_is_shown_with_how_long_each_has_waited() {
    let server = Server::start().await;
    take(&server, "db", "ada").await;
    let _first = wait_for(&server, with(ask("db", "bob"), "mode", "shared"));
    until_waiting(&server, "db", 1).await;
    let _second = wait_for(&server, ask("db", "cleo"));
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
    let asked = with(with(ask("db", "gone"), "wait_ms", 60_000), "request_id", "named");
    gone.write_all(&server.post("/api/v1/locks/acquire").json(&asked).written()).await.unwrap();
    until_waiting(&server, "db", 1).await;
    let next = wait_for(&server, ask("db", "bob"));
    until_waiting(&server, "db", 2).await;
    drop(gone);
    // Whoever is only silent would stand there for minutes.
    until_waiting(&server, "db", 1).await;
    assert_eq!(show(&server, "db").await.ok(200)["line"][0]["owner"], "bob");
    release(&server, &held).await.ok(204);
    assert_eq!(next.await.unwrap().ok(200)["owner"], "bob");
    assert_eq!(causes(&server, "db").await, ["acquired", "released", "acquired"]);
}

#[tokio::test]
async fn a_client_that_asks_again_under_the_same_id_keeps_its_place() {
    let server = Server::start().await;
    let held = take(&server, "db", "ada").await;
    let named = with(ask("db", "bob"), "request_id", "named");
    let first = wait_for(&server, named.clone());
    until_waiting(&server, "db", 1).await;
    let _other = wait_for(&server, ask("db", "cleo"));
    until_waiting(&server, "db", 2).await;
    let calls = async || server.store.lock(&name()).await.unwrap().unwrap().line[0].calls.clone();
    let before = calls().await;
    let again = wait_for(&server, named);
    let has_come = async {
        while calls().await == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, has_come).await.expect("the second call looks for it, too");
    // The first goes, and no longer takes the place with it.
    first.abort();
    release(&server, &held).await.ok(204);
    let grant = again.await.unwrap().ok(200);
    assert_eq!(grant["owner"], "bob");
}

#[tokio::test]
async fn a_closing_server_ends_the_wait() {
    let mut server = Server::start().await;
    take(&server, "db", "ada").await;
    let waiting = wait_for(&server, ask("db", "bob"));
    until_waiting(&server, "db", 1).await;
    server.shutdown.cancel();
    waiting.await.unwrap().problem(409, "lock_held");
    tokio::time::timeout(PATIENCE, &mut server.serving).await.expect("it closes").unwrap();
}

#[tokio::test]
async fn a_lock_that_nobody_holds_and_that_is_anothers_turn_has_no_holder() {
    let server = Server::start().await;
    let held = take(&server, "db", "ada").await;
    let first = Acquire { stay: Some(PATIENCE), ..of_silent(LockLimits::default()) };
    let _ = server.store.acquire(&first).await.unwrap();
    release(&server, &held).await.ok(204);
    let problem = acquire(&server, &ask("db", "bob")).await.problem(409, "lock_held");
    assert_eq!(problem.get("holder"), Some(&json!(null)), "{problem}");
    assert_eq!((&problem["held_ms"], &problem["position"]), (&json!(0), &json!(2)));
    let expected = "nobody holds db by this store's records: it is somebody else's turn, or its key in Redis has a \
        value that is not ours, and the caller's place in line is 2";
    assert_eq!(problem["error"], expected);
}

/// The request of a gateway that dies right after it.
fn of_silent(limits: LockLimits) -> Acquire {
    Acquire {
        lock: name(),
        owner: "silent".parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl: PATIENCE,
        request: "silent".parse().unwrap(),
        call: "silent".parse().unwrap(),
        held: None,
        stay: None,
        limits,
    }
}

#[tokio::test]
async fn a_waiter_that_was_not_heard_of_does_not_hold_up_the_line() {
    let stages = Settings { lock_silence: Duration::from_millis(300), ..patient() };
    let store = empty_store();
    let server = Server::on(store.clone(), stages.clone()).await;
    let held = take(&server, "db", "ada").await;
    let silent = Acquire { stay: Some(stages.lock_silence), ..of_silent(stages.lock_limits) };
    let _ = store.acquire(&silent).await.unwrap();
    let next = wait_for(&server, ask("db", "bob"));
    release(&server, &held).await.ok(204);
    assert_eq!(next.await.unwrap().ok(200)["owner"], "bob");
}
