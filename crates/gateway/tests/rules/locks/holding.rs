//! Acquiring, renewing, re-entering, sharing, releasing, forced release.

use interlock_backend::clock::SystemClock;
use interlock_model::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{acquire, causes, release, renew, request, show, take, token_of, until_waiting, wait_for, with};
use crate::server::Server;

#[tokio::test]
async fn a_lock_is_granted_renewed_and_released_under_its_token() {
    let server = Server::start().await;
    let grant = take(&server, "db", "ada").await;
    assert_eq!(
        (&grant["resource"], &grant["owner"], &grant["mode"]),
        (&json!("db"), &json!("ada"), &json!("exclusive"))
    );
    assert!(grant["fence"].as_u64().unwrap() > 0);
    let renewed = renew(&server, &grant, 1_200_000).await.ok(200);
    assert_eq!((&renewed["token"], &renewed["fence"]), (&grant["token"], &grant["fence"]));
    assert!(expiry(&renewed) > expiry(&grant));
    for _ in 0..2 {
        release(&server, &grant).await.ok(204);
    }
    show(&server, "db").await.problem(404, "not_found");
    let next = take(&server, "db", "bob").await;
    assert!(next["fence"].as_u64() > grant["fence"].as_u64());
    assert_eq!(causes(&server, "db").await, ["acquired", "released", "acquired"]);
}

fn expiry(grant: &Value) -> Timestamp {
    grant["expires_at"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn l11_every_way_to_a_hold_honours_its_ttl() {
    let server = Server::start().await;
    let check = |before: Timestamp, grant: &Value, ttl_ms: u64| {
        let left = |now: Timestamp| expiry(grant).as_millis() - now.as_millis();
        assert!(left(before) >= ttl_ms && left(SystemClock.now()) <= ttl_ms, "{ttl_ms}: {grant}");
    };
    let mut held = Value::Null;
    for (number, mode) in [(1, "exclusive"), (2, "shared")] {
        let before = SystemClock.now();
        let wanted = with(with(request(mode, "ada"), "mode", mode), "ttl_ms", 10_000 * number);
        held = acquire(&server, &with(wanted, "request_id", "first")).await.ok(200);
        check(before, &held, 10_000 * number);
    }
    let again = with(with(request("shared", "ada"), "token", held["token"].clone()), "ttl_ms", 45_000);
    let again = with(again, "mode", "shared");
    let before = SystemClock.now();
    check(before, &acquire(&server, &again).await.ok(200), 45_000);
    let before = SystemClock.now();
    check(before, &renew(&server, &held, 30_000).await.ok(200), 30_000);
    let waiting = wait_for(&server, with(request("shared", "bob"), "ttl_ms", 70_000));
    until_waiting(&server, "shared", 1).await;
    let before = SystemClock.now();
    release(&server, &held).await.ok(204);
    check(before, &waiting.await.unwrap().ok(200), 70_000);
}

#[tokio::test]
async fn l18_the_owners_name_proves_nothing() {
    let server = Server::start().await;
    let grant = take(&server, "db", "ada").await;
    let problem = acquire(&server, &request("db", "ada")).await.problem(409, "lock_held");
    assert_eq!(problem["holder"], "ada");
    let foreign = json!({"resource": "db", "token": "ada"});
    let refused = server.post("/api/v1/locks/release").json(&foreign).send().await;
    refused.problem(409, "stale_fence");
    assert_eq!(show(&server, "db").await.ok(200)["token"], grant["token"]);
}

#[tokio::test]
async fn l10_asking_again_by_token_or_request_id_gives_the_same_hold_and_fence() {
    let server = Server::start().await;
    let wanted = with(request("db", "ada"), "request_id", "once");
    let grant = acquire(&server, &wanted).await.ok(200);
    for again in [wanted, with(request("db", "ada"), "token", grant["token"].clone())] {
        let same = acquire(&server, &again).await.ok(200);
        assert_eq!((&same["token"], &same["fence"]), (&grant["token"], &grant["fence"]));
    }
    assert_eq!(causes(&server, "db").await, ["acquired"]);
    let other = with(request("db", "bob"), "request_id", "once");
    acquire(&server, &other).await.problem(409, "conflict");
    let in_another_mode = with(with(request("db", "ada"), "token", grant["token"].clone()), "mode", "shared");
    acquire(&server, &in_another_mode).await.problem(409, "conflict");
    release(&server, &grant).await.ok(204);
    let stale = with(request("db", "ada"), "token", grant["token"].clone());
    acquire(&server, &stale).await.problem(409, "stale_fence");
}

#[tokio::test]
async fn shared_leases_coexist_and_do_not_overtake_an_exclusive_waiter() {
    let server = Server::start().await;
    let shared = |owner: &str| with(request("db", owner), "mode", "shared");
    let first = acquire(&server, &shared("ada")).await.ok(200);
    let second = acquire(&server, &shared("bob")).await.ok(200);
    let alone = wait_for(&server, request("db", "cleo"));
    until_waiting(&server, "db", 1).await;
    let view = show(&server, "db").await.ok(200);
    let owners: Vec<_> = view["holders"].as_array().unwrap().iter().map(|holder| &holder["owner"]).collect();
    assert_eq!(owners, ["ada", "bob"]);
    assert_eq!((&view["owner"], &view["mode"]), (&json!("ada"), &json!("shared")));
    let late = acquire(&server, &shared("dan")).await.problem(409, "lock_held");
    assert_eq!(late["position"], 2);
    release(&server, &first).await.ok(204);
    release(&server, &second).await.ok(204);
    assert_eq!(alone.await.unwrap().ok(200)["owner"], "cleo");
}

#[tokio::test]
async fn a_late_holder_is_refused_with_both_fences_and_counted() {
    let server = Server::start().await;
    let late = acquire(&server, &with(request("db", "ada"), "ttl_ms", 100)).await.ok(200);
    let current = wait_for(&server, request("db", "bob")).await.unwrap().ok(200);
    let asked_again = acquire(&server, &with(request("db", "ada"), "token", late["token"].clone())).await;
    let forced = with(json!({"resource": "db", "reason": "stuck"}), "expect_token", late["token"].clone());
    let forced = server.post("/api/v1/locks/force-release").json(&forced).send().await;
    let refusals = [asked_again, renew(&server, &late, 1_000).await, release(&server, &late).await, forced];
    for refusal in refusals {
        let problem = refusal.problem(409, "stale_fence");
        assert_eq!((&problem["held"], &problem["current"]), (&late["fence"], &current["fence"]));
        assert!(problem["error"].as_str().unwrap().contains("does not hold db"), "{problem}");
    }
    assert_eq!(show(&server, "db").await.ok(200)["token"], current["token"]);
    assert_eq!(causes(&server, "db").await, ["acquired", "expired", "acquired"]);
    let text = String::from_utf8(server.get("/metrics").send().await.body).unwrap();
    for write in ["lock_acquire", "lock_renew", "lock_release", "lock_force_release"] {
        assert!(text.contains(&format!("fence_rejections_total{{write=\"{write}\"}} 1")), "{text}");
    }
}

#[tokio::test]
async fn a_forced_release_ends_the_named_lease_and_its_reason_is_recorded() {
    let server = Server::with_key("root").await;
    let made = json!({"name": "night shift", "role": "operator", "tenant": "acme"});
    let made = server.post("/api/v1/keys").header("x-api-key", "root").json(&made).send().await.ok(201);
    let key = made["key"].as_str().unwrap();
    let post = |path: &str, body: &Value| {
        server.post(&format!("/api/v1/locks/{path}")).header("x-api-key", key).json(body).send()
    };
    let grant = post("acquire", &request("db", "ada")).await.ok(200);
    let force = json!({"resource": "db", "expect_token": grant["token"], "reason": "ada is on leave"});
    post("force-release", &with(force.clone(), "expect_token", "t-other")).await.problem(409, "stale_fence");
    // The answer may be lost, so the request may be repeated.
    for _ in 0..2 {
        post("force-release", &force).await.ok(204);
    }
    let late = post("release", &token_of(&grant)).await.problem(409, "stale_fence");
    // No lease was granted since, so both fences are equal.
    assert_eq!(late["held"], late["current"]);
    let sentence = late["error"].as_str().unwrap();
    assert!(sentence.contains("lease on db has ended") && !sentence.contains("last grant"), "{sentence}");
    let history =
        server.get("/api/v1/locks/history?resource=db").header("x-api-key", key).send().await.ok(200);
    let end = &history["items"][0];
    assert_eq!((&end["event"], &end["cause"]), (&json!("ended"), &json!("force_released")));
    assert_eq!((&end["by"], &end["reason"]), (&json!("night shift"), &json!("ada is on leave")));
    assert_eq!(end["token"], grant["token"]);
    let begin = &history["items"][1];
    assert_eq!((&begin["event"], &begin["cause"]), (&json!("granted"), &json!("acquired")));
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn tenants_have_separate_locks() {
    let server = Server::start().await;
    let grant = take(&server, "db", "ada").await;
    let post = |path: &str, body: &Value| {
        server.post(&format!("/api/v1/locks/{path}")).header("x-tenant-id", "other").json(body).send()
    };
    post("renew", &with(token_of(&grant), "ttl_ms", 1_000)).await.problem(404, "not_found");
    post("release", &token_of(&grant)).await.problem(404, "not_found");
    let force = json!({"resource": "db", "expect_token": grant["token"], "reason": "x"});
    post("force-release", &force).await.problem(404, "not_found");
    for path in ["?resource=db", "/history?resource=db"] {
        let answer = server.get(&format!("/api/v1/locks{path}")).header("x-tenant-id", "other").send().await;
        answer.problem(404, "not_found");
    }
    post("acquire", &request("db", "bob")).await.ok(200);
    assert_eq!(show(&server, "db").await.ok(200)["owner"], "ada");
}
