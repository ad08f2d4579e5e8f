//! What becomes of starts that count in a limit.

use serde_json::{Value, json};

use super::{end_one, get, put, server, start, text, until_status};

#[tokio::test]
async fn a_queued_start_waits_with_its_place_and_begins_when_the_slot_is_free() {
    let server = server().await;
    let document = json!({"key": "input.repo", "max_runs": 1, "on_full": "queue", "queue": {"max": 2}});
    put(&server, "per-repo", document).await.ok(200);
    let input = json!({"repo": "acme/api", "n": 1});
    let first = text(&start(&server, &input).send().await.ok(200)["run_id"]);
    start(&server, &json!({"repo": "other", "n": 1})).send().await.ok(200);
    let answer = start(&server, &input).header("idempotency-key", "k").send().await;
    let queued = answer.ok(202);
    let run = text(&queued["run_id"]);
    assert_eq!(
        (&queued["status"], &queued["position"], &queued["replayed"]),
        (&json!("queued"), &json!(1), &json!(false))
    );
    let blocked = json!({"reason": "queued", "limit": "per-repo", "group": "acme/api", "full": "slots", "live": 1,
        "max_runs": 1, "queued": 0, "next_at": null});
    assert_eq!(queued["blocked_by"], blocked);
    assert!(answer.header("ratelimit").is_some() && answer.header("ratelimit-policy").is_some());
    let last = text(&start(&server, &input).send().await.ok(202)["run_id"]);
    let full = start(&server, &input).send().await;
    let problem = full.problem(429, "queue_full");
    assert_eq!((&problem["limit"], &problem["group"]), (&json!("per-repo"), &json!("acme/api")));
    assert!(full.header("retry-after").is_some() && problem["retry_after_ms"].is_u64(), "{problem}");

    // Every explanation has the same sentence.
    let view = server.view(&run).await;
    assert_eq!((&view["status"], &view["waiting_for"]["position"]), (&json!("queued"), &json!(1)));
    assert_eq!(view["waiting_for"]["detail"], queued["detail"]);
    let why = server.get(&format!("/api/v1/why?run_id={run}")).send().await.ok(200);
    let cause = &why["causes"][0];
    assert_eq!(
        (&why["state"], &cause["code"], &cause["position"]),
        (&json!("queued"), &json!("queued"), &json!(1))
    );
    assert_eq!(cause["holders"][0]["name"], json!(first));
    let (said, held) = (text(&cause["detail"]), format!("Held by run `{first}`"));
    assert!(
        said.starts_with(text(&queued["detail"]).split_once(". ").unwrap().0) && said.contains(&held),
        "{said}"
    );

    let waiting = server.get("/api/v1/limits/per-repo/queue?group=acme/api").send().await.ok(200);
    let ids: Vec<_> = waiting["items"].as_array().unwrap().iter().map(|item| text(&item["run_id"])).collect();
    assert_eq!(ids, [run.clone(), last.clone()]);
    let listed = server.get("/api/v1/workflow-runs?status=queued").send().await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let usage = get(&server, "per-repo").await;
    assert_eq!(
        usage["usage"],
        json!({"live": 2, "queued": 2, "debounced": 0, "max_runs": 1, "has_more": false})
    );
    assert_eq!(usage["groups"][0], json!({"group": "acme/api", "live": 1, "queued": 2, "debounced": 0}));

    let again = start(&server, &input).header("idempotency-key", "k").send().await.ok(200);
    assert_eq!(again, json!({"run_id": run, "status": "queued", "replayed": true}));
    end_one(&server).await;
    server.ended(&first).await;
    let begun = until_status(&server, &run, "running").await;
    assert_eq!(begun["waiting_for"], Value::Null);
    let events = server.get(&format!("/api/v1/workflow-runs/{run}/timeline")).send().await.ok(200);
    let statuses: Vec<_> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["type"] == "run_status")
        .map(|it| text(&it["status"]))
        .collect();
    assert_eq!(statuses[0], "queued");
    assert_eq!(statuses.last().unwrap(), "running");
}

#[tokio::test]
async fn a_full_limit_that_rejects_is_429_with_its_name_and_nothing_is_written() {
    let server = server().await;
    put(&server, "small", json!({"max_runs": 1})).await.ok(200);
    let first = start(&server, &json!({"n": 1})).send().await.ok(200);
    let refused = start(&server, &json!({"n": 2})).header("idempotency-key", "k").send().await;
    let problem = refused.problem(429, "limit_reached");
    assert_eq!((&problem["limit"], &problem["current"]), (&json!("small"), &json!(1)));
    assert!(problem.get("group").is_none(), "{problem}");
    assert!(problem["retry_after_ms"].as_u64() >= Some(1) && refused.header("retry-after").is_some());
    assert!(text(&problem["detail"]).starts_with("Rejected: limit `small` is full (1 of 1)."), "{problem}");
    assert_eq!(
        server.get("/api/v1/workflow-runs").send().await.ok(200)["items"].as_array().unwrap().len(),
        1
    );
    end_one(&server).await;
    server.ended(&text(&first["run_id"])).await;
    let second = start(&server, &json!({"n": 2})).header("idempotency-key", "k").send().await.ok(200);
    assert_eq!(second["replayed"], json!(false), "the key was not used up");
}

#[tokio::test]
async fn a_rate_is_retried_when_the_next_start_may_pass() {
    let server = server().await;
    put(&server, "slow", json!({"rate": {"starts": 1, "period_sec": 600}})).await.ok(200);
    start(&server, &json!({"n": 1})).send().await.ok(200);
    let problem = start(&server, &json!({"n": 2})).send().await.problem(429, "limit_reached");
    let wait = problem["retry_after_ms"].as_u64().unwrap();
    assert!((590_000..=900_000).contains(&wait), "{problem}");
    assert_eq!(problem["blocked_by"]["full"], json!("rate"));
    assert!(problem["blocked_by"]["next_at"].is_string(), "{problem}");
}

#[tokio::test]
async fn a_start_joins_the_run_of_its_group_and_its_key_stands_for_it() {
    let server = server().await;
    put(&server, "single", json!({"key": "input.n", "max_runs": 1, "on_full": "join"})).await.ok(200);
    let run = text(&start(&server, &json!({"n": 1})).send().await.ok(200)["run_id"]);
    let joined = start(&server, &json!({"n": 1})).header("idempotency-key", "k").send().await.ok(200);
    assert_eq!(joined, json!({"run_id": run, "status": "running", "replayed": false, "joined": true}));
    let again = start(&server, &json!({"n": 1})).header("idempotency-key", "k").send().await.ok(200);
    assert_eq!((text(&again["run_id"]), &again["replayed"]), (run, &json!(true)));
}

#[tokio::test]
async fn a_start_without_a_group_is_refused_and_nothing_is_started() {
    let server = server().await;
    put(&server, "per-repo", json!({"key": "input.repo", "max_runs": 1})).await.ok(200);
    for input in [json!({}), json!({"repo": null}), json!({"repo": ["a"]}), json!({"repo": "x".repeat(257)})]
    {
        let refused = start(&server, &input).send().await.problem(400, "invalid_request");
        assert!(text(&refused["detail"]).contains("per-repo"), "{refused}");
    }
    assert_eq!(server.get("/api/v1/workflow-runs").send().await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn labels_and_priority_come_with_the_start_and_stay_with_the_run() {
    let server = server().await;
    put(
        &server,
        "team",
        json!({"key": "labels.team", "max_runs": 1, "on_full": "queue", "queue": {"order": "priority"}}),
    )
    .await
    .ok(200);
    let labelled = |priority: &str| {
        start(&server, &json!({"n": 1}))
            .header("x-interlock-label", "team=red")
            .header("x-interlock-label", "env=prod")
            .header("x-interlock-priority", priority)
    };
    let first = text(&labelled("4").send().await.ok(200)["run_id"]);
    let view = server.view(&first).await;
    assert_eq!((&view["labels"], &view["priority"]), (&json!({"env": "prod", "team": "red"}), &json!(4)));
    let low = labelled("1").send().await.ok(202);
    assert_eq!(low["position"], Value::Null, "in an order by priority no place is certain");
    let high = text(&labelled("9").send().await.ok(202)["run_id"]);
    let waiting = server.get("/api/v1/limits/team/queue?group=red").send().await.ok(200);
    assert_eq!((&waiting["items"][0]["run_id"], &waiting["items"][0]["priority"]), (&json!(high), &json!(9)));
    for (name, value) in
        [("x-interlock-label", "bad"), ("x-interlock-label", "a b=c"), ("x-interlock-priority", "10")]
    {
        start(&server, &json!({"n": 1})).header(name, value).send().await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_waiting_run_is_moved_and_any_other_is_409() {
    let server = server().await;
    put(&server, "one", json!({"max_runs": 1, "on_full": "queue"})).await.ok(200);
    let live = text(&start(&server, &json!({"n": 0})).send().await.ok(200)["run_id"]);
    let mut waiting = Vec::new();
    for n in 1..=3 {
        waiting.push(text(&start(&server, &json!({"n": n})).send().await.ok(202)["run_id"]));
    }
    let shift = async |run: &str, to: &str| {
        let path = format!("/api/v1/workflow-runs/{run}/move");
        server.post(&path).json(&json!({"to": to})).send().await
    };
    shift(&waiting[2], "front").await.ok(204);
    shift(&waiting[0], "back").await.ok(204);
    let queue = server.get("/api/v1/limits/one/queue").send().await.ok(200);
    let order: Vec<_> = queue["items"].as_array().unwrap().iter().map(|it| text(&it["run_id"])).collect();
    assert_eq!(order, [waiting[2].clone(), waiting[1].clone(), waiting[0].clone()]);
    shift(&live, "front").await.problem(409, "conflict");
    shift(&waiting[1], "sideways").await.problem(400, "invalid_request");
    shift("0192f0c1-0000-7000-8000-000000000001", "front").await.problem(404, "not_found");
}
