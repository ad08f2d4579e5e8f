//! Budgets over HTTP: documents, permits and adjustments.

use interlock_poll::until_matches;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::identity::make;
use crate::server::{Server, empty_store};

const LLM: &str = "/api/v1/budgets/llm";

fn document(amount: &str, per: &str) -> Value {
    json!({"unit": "usd", "amount": amount, "per": per})
}

async fn save(server: &Server, document: &Value) -> Value {
    server.put(LLM).json(document).send().await.ok(200)
}

async fn post(server: &Server, verb: &str, body: &Value) -> Answer {
    server.post(&format!("{LLM}/{verb}")).json(body).send().await
}

fn request(id: &str, amount: &str) -> Value {
    json!({"amount": amount, "ttl_ms": 60_000, "request_id": id})
}

fn with(mut body: Value, name: &str, value: impl Into<Value>) -> Value {
    body[name] = value.into();
    body
}

#[tokio::test]
async fn a_permit_is_reserved_renewed_and_settled() {
    let server = Server::start().await;
    let saved = save(&server, &document("20.00", "day")).await;
    assert_eq!(
        (&saved["amount"], &saved["revision"], &saved["timezone"]),
        (&json!("20"), &json!(1), &json!(null))
    );
    let permit = post(&server, "reserve", &request("r1", "0.05")).await.ok(200);
    assert_eq!(
        (&permit["granted"], &permit["remaining"], &permit["replayed"]),
        (&json!("0.05"), &json!("19.95"), &json!(false))
    );
    assert_eq!(permit["resets_at"], saved["resets_at"]);
    assert!(permit["fence"].as_u64().is_some_and(|fence| fence > 0), "{permit}");
    let again = post(&server, "reserve", &request("r1", "0.05")).await.ok(200);
    assert_eq!(
        (&again["permit"], &again["fence"], &again["replayed"]),
        (&permit["permit"], &permit["fence"], &json!(true))
    );
    let renewed =
        post(&server, "renew", &json!({"permit": permit["permit"], "ttl_ms": 3_600_000})).await.ok(200);
    assert!(renewed["expires_at"].as_str() > permit["expires_at"].as_str(), "{renewed}");
    let settle = json!({"permit": permit["permit"], "amount": "0.031"});
    for _ in 0..2 {
        let settled = post(&server, "settle", &settle).await.ok(200);
        assert_eq!(
            (&settled["state"], &settled["settled"], &settled["remaining"]),
            (&json!("settled"), &json!("0.031"), &json!("19.969"))
        );
    }
    let other = with(settle, "amount", "0.04");
    let problem = post(&server, "settle", &other).await.problem(409, "conflict");
    assert!(problem["error"].as_str().unwrap().contains("settled with 0.031"), "{problem}");
    post(&server, "release", &json!({"permit": permit["permit"]})).await.ok(200);
    let shown = server.get(LLM).send().await.ok(200);
    let usage = &shown["usage"];
    assert_eq!(
        (&usage["spent"], &usage["reserved"], &usage["open_permits"]),
        (&json!("0.031"), &json!("0"), &json!(0))
    );
    let listed = server.get("/api/v1/budgets").send().await.ok(200);
    assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["usage"]), (&json!("llm"), usage));
}

#[tokio::test]
async fn an_exhausted_budget_says_what_is_left_and_when_it_resets() {
    let server = Server::start().await;
    let saved = save(&server, &document("1", "day")).await;
    let permit = post(&server, "reserve", &request("r1", "0.98")).await.ok(200);
    let refused = post(&server, "reserve", &request("r2", "0.05")).await;
    let problem = refused.problem(429, "budget_exhausted");
    assert_eq!((&problem["remaining"], &problem["resets_at"]), (&json!("0.02"), &saved["resets_at"]));
    let sentence = problem["detail"].as_str().unwrap();
    assert!(
        sentence.contains("has 0.02 usd left of 1 today")
            && sentence.contains("0.98 is reserved by 1 open permit"),
        "{sentence}"
    );
    let soon = problem["retry_after_ms"].as_u64().unwrap();
    assert!((1_000..=2_000).contains(&soon), "what is reserved may be released: {soon}");
    assert_eq!(refused.header("retry-after"), Some(soon.div_ceil(1_000).to_string().as_str()));
    let part = with(request("r3", "0.05"), "min_amount", "0.01");
    assert_eq!(post(&server, "reserve", &part).await.ok(200)["granted"], "0.02");
    post(&server, "settle", &json!({"permit": permit["permit"], "amount": "1"})).await.ok(200);
    save(&server, &document("0.5", "total")).await;
    let never = post(&server, "reserve", &request("r4", "0.6")).await.problem(429, "budget_exhausted");
    assert_eq!((&never["remaining"], never.get("resets_at")), (&json!("0.5"), Some(&json!(null))));
    assert!(never["retry_after_ms"].as_u64().unwrap() >= 60_000, "{never}");
}

#[tokio::test]
async fn what_is_not_valid_is_refused_by_its_field() {
    let server = Server::start().await;
    let good = document("20", "day");
    let bad = [
        ("unit", with(good.clone(), "unit", "")),
        ("amount", with(good.clone(), "amount", 20)),
        ("amount", with(good.clone(), "amount", "-1")),
        ("amount", with(good.clone(), "amount", "9000000000")),
        ("amount", with(good.clone(), "amount", "0.0000001")),
        ("per", with(good.clone(), "per", "week")),
        ("timezone", with(good.clone(), "timezone", "Mars/Phobos")),
        ("key", with(good.clone(), "key", "steps.a")),
        ("warn_at", with(good.clone(), "warn_at", json!([80, 50]))),
        ("on_exhausted", with(good.clone(), "on_exhausted", "explode")),
        ("surprise", with(good.clone(), "surprise", 1)),
    ];
    for (field, body) in bad {
        let problem = server.put(LLM).json(&body).send().await.problem(400, "invalid_request");
        let error = problem["error"].as_str().unwrap();
        assert!(error.contains(field) || field == "per" || field == "on_exhausted", "{field}: {error}");
    }
    server.get(LLM).send().await.problem(404, "not_found");
    save(&server, &with(good, "key", "input.user")).await;
    let good = with(request("r1", "1"), "key", "ann");
    let bad = [
        ("amount", with(good.clone(), "amount", "0")),
        ("amount", with(good.clone(), "amount", 1)),
        ("min_amount", with(good.clone(), "min_amount", "2")),
        ("min_amount", with(good.clone(), "min_amount", 1)),
        ("ttl_ms", with(good.clone(), "ttl_ms", 999)),
        ("ttl_ms", with(good.clone(), "ttl_ms", 3_600_001)),
        ("key", with(good.clone(), "key", "k".repeat(257))),
        ("key", with(good.clone(), "key", "")),
        ("key", request("r1", "1")),
        ("request_id", json!({"amount": "1", "ttl_ms": 1_000, "key": "ann"})),
    ];
    for (field, body) in bad {
        let problem = post(&server, "reserve", &body).await.problem(400, "invalid_request");
        assert!(problem["error"].as_str().unwrap().contains(field), "{field}: {problem}");
    }
    for (field, body) in [
        ("delta", json!({"delta": "0", "reason": "r", "key": "ann"})),
        ("delta", json!({"delta": "-1", "reason": "r", "key": "ann", "until": "2099-01-01T00:00:00Z"})),
        ("delta", json!({"delta": 1, "reason": "r"})),
        ("until", json!({"delta": "1", "reason": "r", "until": "2020-01-01T00:00:00Z"})),
        ("reason", json!({"delta": "1", "reason": " "})),
        ("key", json!({"delta": "1", "reason": "r"})),
    ] {
        let problem = post(&server, "adjust", &body).await.problem(400, "invalid_request");
        assert!(problem["error"].as_str().unwrap().contains(field), "{field}: {problem}");
    }
    post(&server, "reserve", &good).await.ok(200);
}

#[tokio::test]
async fn two_operators_cannot_overwrite_each_other() {
    let server = Server::start().await;
    save(&server, &document("1", "total")).await;
    let put = async |revision: &str, amount: &str| {
        server.put(LLM).header("if-match", revision).json(&document(amount, "total")).send().await
    };
    put("\"1\"", "2").await.ok(200);
    let problem = put("1", "3").await.problem(409, "conflict");
    assert!(problem["error"].as_str().unwrap().contains("revision 2, not 1"), "{problem}");
    put("x", "3").await.problem(400, "invalid_request");
    server.delete(LLM).header("if-match", "1").send().await.problem(409, "conflict");
    assert_eq!(server.get(LLM).send().await.ok(200)["amount"], "2");
    server.delete(LLM).header("if-match", "2").send().await.ok(204);
    server.get(LLM).send().await.problem(404, "not_found");
}

#[tokio::test]
async fn an_expired_permit_counts_as_spent_until_a_late_settlement() {
    let server = Server::start().await;
    save(&server, &document("1", "total")).await;
    let permit = post(&server, "reserve", &with(request("r1", "0.9"), "ttl_ms", 1_000)).await.ok(200);
    let usage = async || server.get(LLM).send().await.ok(200)["usage"].clone();
    until_matches("the permit has expired", usage, |usage| usage["unsettled"] == "0.9").await;
    let renew = json!({"permit": permit["permit"], "ttl_ms": 1_000});
    post(&server, "renew", &renew).await.problem(409, "conflict");
    let refused = post(&server, "reserve", &request("r2", "0.2")).await.problem(429, "budget_exhausted");
    assert!(refused["error"].as_str().unwrap().contains("0.9 expired unsettled"), "{refused}");
    let settled =
        post(&server, "settle", &json!({"permit": permit["permit"], "amount": "1.5"})).await.ok(200);
    assert_eq!((&settled["overdraft"], &settled["remaining"]), (&json!("0.6"), &json!("0")));
    let usage = usage().await;
    assert_eq!(
        (&usage["spent"], &usage["unsettled"], &usage["overdraft"]),
        (&json!("1.5"), &json!("0"), &json!("0.6"))
    );
}

#[tokio::test]
async fn the_busiest_keys_are_shown_and_one_that_is_asked_for() {
    let server = Server::start().await;
    save(&server, &with(document("1", "day"), "key", "input.user")).await;
    for (number, (key, amount)) in [("ann", "0.2"), ("bob/ö", "0.9"), ("cid", "0.4")].into_iter().enumerate()
    {
        let body = with(request(&format!("r{number}"), amount), "key", key);
        post(&server, "reserve", &body).await.ok(200);
    }
    let shown = server.get(LLM).send().await.ok(200);
    let keys: Vec<_> =
        shown["groups"].as_array().unwrap().iter().map(|group| group["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["bob/ö", "cid", "ann"]);
    assert_eq!((&shown["usage"]["reserved"], &shown["usage"]["remaining"]), (&json!("1.5"), &json!(null)));
    let one = server.get(&format!("{LLM}?key=cid")).send().await.ok(200);
    assert_eq!(
        (one["groups"].as_array().unwrap().len(), &one["groups"][0]["usage"]["remaining"]),
        (1, &json!("0.6"))
    );
    let new = server.get(&format!("{LLM}?key=new")).send().await.ok(200);
    assert_eq!(new["groups"][0]["usage"]["remaining"], "1", "nothing was reserved for it");
}

#[tokio::test]
async fn an_adjustment_is_kept_with_its_author_and_repeated_by_its_id() {
    let server = Server::with_key("root").await;
    let ask = |request: crate::client::Request, key: &str| {
        request.header("x-api-key", key).header("x-tenant-id", "acme")
    };
    let operator = make(&server, "root", "operator", Some("acme")).await;
    ask(server.put(LLM), "root").json(&document("1", "total")).send().await.ok(200);
    let adjust = json!({"delta": "0.5", "reason": "a wrong price", "request_id": "a1"});
    for _ in 0..2 {
        let usage = ask(server.post(&format!("{LLM}/adjust")), &operator).json(&adjust).send().await.ok(200);
        assert_eq!((&usage["limit"], &usage["adjusted"]), (&json!("1.5"), &json!("0.5")));
    }
    let shown = ask(server.get(LLM), "root").send().await.ok(200);
    let events = shown["events"].as_array().unwrap();
    assert_eq!(
        (events.len(), &events[0]["event"], &events[0]["delta"]),
        (1, &json!("adjusted"), &json!("0.5"))
    );
    assert_eq!(events[0]["reason"], "a wrong price");
    assert!(events[0]["by"].as_str().is_some_and(|by| !by.is_empty()), "{events:?}");
}

#[tokio::test]
async fn a_budget_per_run_is_spent_by_live_runs() {
    let server = Server::start().await;
    save(&server, &document("1", "run")).await;
    server.save(&crate::server::one_step("wf")).await;
    let run = server.run("wf", &json!({})).await;
    post(&server, "reserve", &request("r1", "1")).await.problem(400, "invalid_request");
    let of_run = |id: &str, run: &str| with(request(id, "1"), "run_id", run);
    post(&server, "reserve", &of_run("r2", &run)).await.ok(200);
    post(&server, "reserve", &of_run("r3", &run)).await.problem(429, "budget_exhausted");
    let missing = "01920000-0000-7000-8000-000000000000";
    post(&server, "reserve", &of_run("r4", missing)).await.problem(404, "not_found");
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
    server.ended(&run).await;
    post(&server, "reserve", &of_run("r5", &run)).await.problem(409, "conflict");
}

#[tokio::test]
async fn at_once_exactly_as_many_are_granted_as_the_budget_allows() {
    let server = Server::start().await;
    save(&server, &document("1.37", "day")).await;
    let requests = (0..500).map(|number| {
        server.post(&format!("{LLM}/reserve")).json(&request(&format!("r{number}"), "0.01")).send()
    });
    let answers = futures_util::future::join_all(requests).await;
    let granted = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!((granted, refused), (137, 363));
}

#[tokio::test]
async fn without_the_store_there_is_no_permit() {
    use std::sync::Arc;

    use interlock_backend::faulty::{Faults, FaultyStore};
    use interlock_control::Settings;

    let faulty = Arc::new(FaultyStore::new(empty_store(), 1, Faults::NONE));
    let server = Server::on(faulty.clone(), Settings::default()).await;
    save(&server, &document("1", "total")).await;
    faulty.set_faults(Faults { requests_lost: 1_000, ..Faults::NONE });
    for number in 0..10 {
        let answer = post(&server, "reserve", &request(&format!("r{number}"), "0.1")).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.header("retry-after").is_some());
    }
    faulty.set_faults(Faults { replies_lost: 1_000, ..Faults::NONE });
    let lost = post(&server, "settle", &json!({"permit": "none", "amount": "1"})).await;
    assert_eq!(lost.problem(503, "outcome_unknown")["retry_with_same_key"], json!(true));
}
