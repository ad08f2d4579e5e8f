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
    // Its job, and that of the other group: which was first is not known if both were made at the same moment.
    end_one(&server).await;
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

#[tokio::test]
async fn users_share_a_fair_queue() {
    let server = server().await;
    let queue = json!({"max": 50, "order": "fair", "fair_by": "input.user", "weights": {"vip": 3}});
    let document = json!({"max_runs": 1, "on_full": "queue", "queue": queue});
    put(&server, "shared", document.clone()).await.ok(200);
    assert_eq!(get(&server, "shared").await["document"], document);
    let of = |user: &str| json!({"user": user, "n": 1});
    let first = text(&start(&server, &of("heavy")).send().await.ok(200)["run_id"]);
    let mut heavy = Vec::new();
    for expected in 1..=4 {
        let queued = start(&server, &of("heavy")).send().await.ok(202);
        assert_eq!(queued["position"], json!(expected));
        heavy.push(text(&queued["run_id"]));
    }
    let light = start(&server, &of("light")).send().await.ok(202);
    assert_eq!(light["position"], json!(1), "{light}");
    let run = text(&light["run_id"]);
    let why = server.get(&format!("/api/v1/why?run_id={run}")).send().await.ok(200);
    let cause = &why["causes"][0];
    assert_eq!(cause["position"], json!(1));
    assert!(text(&cause["detail"]).contains("1st in the queue"), "{cause}");
    let waiting = server.get("/api/v1/limits/shared/queue").send().await.ok(200);
    let items = waiting["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["run_id"]), (5, &json!(run)));
    assert_eq!((&items[0]["fair_group"], &items[1]["fair_group"]), (&json!("light"), &json!("heavy")));
    end_one(&server).await;
    server.ended(&first).await;
    until_status(&server, &run, "running").await;
    assert_eq!(server.view(&heavy[0]).await["status"], json!("queued"));

    // A start that belongs to no group is not started.
    for input in [json!({"n": 1}), json!({"user": null, "n": 1}), json!({"user": ["a"], "n": 1})] {
        let refused = start(&server, &input).header("idempotency-key", "fair").send().await;
        let problem = refused.problem(400, "invalid_request");
        assert!(text(&problem["detail"]).contains("queue.fair_by of limit `shared`"), "{problem}");
    }
}

#[tokio::test]
async fn a_fair_queue_that_says_too_little_or_too_much_is_refused() {
    let server = server().await;
    let with = |queue: Value| json!({"max_runs": 1, "on_full": "queue", "queue": queue});
    let weights: Vec<(String, Value)> = (0..101).map(|number| (format!("u{number}"), json!(2))).collect();
    let many = Value::Object(weights.into_iter().collect());
    for (queue, field) in [
        (json!({"order": "fair"}), "queue.fair_by"),
        (json!({"order": "fifo", "fair_by": "input.user"}), "queue.fair_by"),
        (json!({"weights": {"vip": 3}}), "queue.weights"),
        (json!({"order": "fair", "fair_by": "input."}), "queue.fair_by"),
        (json!({"order": "fair", "fair_by": "input.user", "weights": {"vip": 0}}), "queue.weights"),
        (json!({"order": "fair", "fair_by": "input.user", "weights": {"vip": 1_001}}), "queue.weights"),
        (json!({"order": "fair", "fair_by": "input.user", "weights": {"a\nb": 1}}), "queue.weights"),
        (json!({"order": "fair", "fair_by": "input.user", "weights": many}), "queue.weights"),
    ] {
        let refused = put(&server, "shared", with(queue.clone())).await;
        let problem = refused.problem(400, "invalid_request");
        assert!(text(&problem["detail"]).contains(field), "{queue}: {problem}");
    }
    server.get("/api/v1/limits/shared").send().await.problem(404, "not_found");
    let fair = json!({"order": "fair", "fair_by": "input.user"});
    let refused =
        put(&server, "tenant-runs", json!({"max_runs": 2, "on_full": "queue", "queue": fair})).await;
    assert!(text(&refused.problem(400, "invalid_request")["detail"]).contains("queue.order"));
}
