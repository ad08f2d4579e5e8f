//! Claim, heartbeat, report.

use serde_json::json;

use crate::server::{Server, empty_store, local, one_step, patient};

#[tokio::test]
async fn a_worker_completes_a_run() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 7})).await;
    let job = server.claim_one("w1").await;
    assert_eq!(job["job_id"], format!("{run}:build@1"));
    assert_eq!((&job["run_id"], &job["step_id"]), (&json!(run), &json!("build")));
    assert_eq!(
        (&job["topic"], &job["attempt"], &job["input"]),
        (&json!("build"), &json!(1), &json!({"n": 7}))
    );
    assert_eq!(job["lease_ms"], 15_000);
    assert!(job["deadline_ms"].as_u64().unwrap() > 1_700_000_000_000);
    let beat = server.report(&job, "heartbeat", json!({})).await.ok(200);
    assert_eq!(beat, json!({"lease_ms": 15_000, "cancel_requested": false}));
    let progress = json!({"percent": 50, "message": "half"});
    assert_eq!(server.report(&job, "progress", progress).await.ok(200), json!({}));
    for _ in 0..2 {
        assert_eq!(server.report(&job, "complete", json!({"output": {"ok": true}})).await.ok(200), json!({}));
    }
    let view = server.ended(&run).await;
    assert_eq!(view["status"], "succeeded");
    assert_eq!(view["steps"]["build"]["output"], json!({"ok": true}));
    assert_eq!(view["context"]["org_id"], "default");
    assert!(view["fence"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_a_start() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let body = json!({"topics": ["build"], "max_jobs": 1, "wait_ms": 60_000});
    let claim = tokio::spawn(server.post("/api/v1/workers/w1/claim").json(&body).send());
    // Once the worker is known, its claim has looked and found nothing.
    interlock_poll::until("the worker is known", async || {
        server.get("/api/v1/workers/w1").send().await.status == 200
    })
    .await;
    let run = server.run("wf", &json!({"n": 1})).await;
    assert_eq!(claim.await.unwrap().ok(200)["jobs"][0]["run_id"], json!(run));
}

#[tokio::test]
async fn every_call_with_another_fence_is_refused_with_both_fences() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.run("wf", &json!({"n": 1})).await;
    let mut job = server.claim_one("w1").await;
    let current = job["fence"].as_u64().unwrap();
    job["fence"] = json!(current - 1);
    let calls = [
        ("heartbeat", json!({})),
        ("progress", json!({"percent": 1})),
        ("complete", json!({"output": 1})),
        ("fail", json!({"error": "x", "retryable": false})),
        ("release", json!({"reason": "x"})),
    ];
    for (verb, body) in calls {
        let problem = server.report(&job, verb, body).await.problem(409, "stale_fence");
        assert_eq!((&problem["held"], &problem["current"]), (&json!(current - 1), &json!(current)));
    }
    let metrics = server.get("/metrics").send().await;
    let text = String::from_utf8(metrics.body).unwrap();
    for verb in ["heartbeat", "progress", "complete", "fail", "release"] {
        assert!(text.contains(&format!("fence_rejections_total{{write=\"{verb}\"}} 1")), "{text}");
    }
}

#[tokio::test]
async fn the_heartbeat_of_a_cancelled_run_asks_to_cancel() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w1").await;
    for _ in 0..2 {
        server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
        server.post(&format!("/api/v1/workflows/wf/runs/{run}/cancel")).send().await.ok(204);
    }
    let beat = server.report(&job, "heartbeat", json!({})).await.ok(200);
    assert_eq!(beat, json!({"lease_ms": 0, "cancel_requested": true}));
    assert_eq!(server.view(&run).await["status"], "cancelled");
    let other = server.post(&format!("/api/v1/workflows/another/runs/{run}/cancel")).send().await;
    other.problem(404, "not_found");
}

#[tokio::test]
async fn claims_out_of_bounds_are_refused() {
    let server = Server::start().await;
    let many: Vec<String> = (0..65).map(|number| format!("t{number}")).collect();
    let bad = [
        json!({"topics": [], "max_jobs": 1, "wait_ms": 0}),
        json!({"topics": many, "max_jobs": 1, "wait_ms": 0}),
        json!({"topics": ["t"], "max_jobs": 0, "wait_ms": 0}),
        json!({"topics": ["t"], "max_jobs": 101, "wait_ms": 0}),
        json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 60_001}),
        json!({"topics": ["t"], "max_jobs": 1, "wait_ms": -1}),
        json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 0, "lease_ms": 999}),
        json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 0, "lease_ms": 3_600_001}),
        json!({"topics": ["no spaces"], "max_jobs": 1, "wait_ms": 0}),
        json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 0, "surprise": 1}),
    ];
    for body in bad {
        server.post("/api/v1/workers/w1/claim").json(&body).send().await.problem(400, "invalid_request");
    }
    let good = json!({"topics": ["t"], "max_jobs": 100, "wait_ms": 0, "lease_ms": 3_600_000});
    assert_eq!(server.post("/api/v1/workers/w1/claim").json(&good).send().await.ok(200), json!({"jobs": []}));
    let name = server.post("/api/v1/workers/no%20spaces/claim").json(&good).send().await;
    name.problem(400, "invalid_request");
}

#[tokio::test]
async fn progress_and_fences_out_of_range_are_refused() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w1").await;
    for percent in [json!(101), json!(-1), json!(1.5), json!("10"), json!(1e300)] {
        let answer = server.report(&job, "progress", json!({"percent": percent})).await;
        answer.problem(400, "invalid_request");
    }
    let mut beyond = job.clone();
    beyond["fence"] = json!(9_007_199_254_740_992_u64);
    server.report(&beyond, "heartbeat", json!({})).await.problem(400, "invalid_request");
}

#[tokio::test]
async fn items_of_a_fan_out_are_jobs_whose_ids_may_be_escaped() {
    let server = Server::start().await;
    let step =
        json!({"type": "worker", "topic": "build", "for_each": "input.items", "input": {"item": "${item}"}});
    server.save(&json!({"id": "fan", "name": "fan", "steps": {"each": step}})).await;
    let run = server.run("fan", &json!({"items": ["a", "b"]})).await;
    let jobs = [server.claim_one("w1").await, server.claim_one("w1").await];
    assert_eq!(jobs[0]["job_id"], format!("{run}:each[0]@1"));
    let plain = server.get(&format!("/api/v1/jobs/{run}:each[0]@1")).send().await.ok(200);
    let escaped = server.get(&format!("/api/v1/jobs/{run}%3Aeach%5B0%5D%401")).send().await.ok(200);
    assert_eq!(plain, escaped);
    assert_eq!((&plain["state"], &plain["worker_id"]), (&json!("running"), &json!("w1")));
    for job in &jobs {
        server.report(job, "complete", json!({"output": job["input"]["item"]})).await.ok(200);
    }
    let view = server.ended(&run).await;
    assert_eq!(view["steps"]["each"]["children"]["each[1]"]["output"], "b");
    assert_eq!(view["steps"]["each"]["output"], json!(["a", "b"]));
}

#[tokio::test]
async fn cancelling_a_job_returns_its_state() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w1").await;
    let id = job["job_id"].as_str().unwrap();
    for _ in 0..2 {
        let answer = server.post(&format!("/api/v1/jobs/{id}/cancel")).send().await.ok(200);
        assert_eq!(answer, json!({"id": id, "state": "cancelled"}));
    }
    assert_eq!(server.ended(&run).await["steps"]["build"]["status"], "cancelled");
}

#[tokio::test]
async fn the_shortest_lease_is_a_setting() {
    let settings = interlock_gateway::Settings { lease_min: std::time::Duration::from_millis(50), ..local() };
    let server = Server::with(settings, None).await.unwrap();
    let body = json!({"topics": ["t"], "max_jobs": 1, "wait_ms": 0, "lease_ms": 50});
    server.post("/api/v1/workers/w1/claim").json(&body).send().await.ok(200);
}

async fn waiting_for(server: &Server, run: &str) -> serde_json::Value {
    let job = server.get(&format!("/api/v1/jobs/{run}:build@1")).send().await.ok(200);
    assert_eq!(job["state"], "queued");
    job["waiting_for"].clone()
}

#[tokio::test]
async fn a_queued_job_shows_its_wait_reason_and_goes_to_the_first_capable_worker() {
    let server = Server::start().await;
    let step = json!({"type": "worker", "topic": "build", "meta": {"requires": ["gpu"]}});
    server.save(&json!({"id": "wf", "name": "wf", "steps": {"build": step}})).await;
    let (mut first, mut run) = (server.run("wf", &json!({})).await, server.run("wf", &json!({})).await);
    // Runs of the same millisecond have no order of their own.
    if waiting_for(&server, &run).await["position"] == 0 {
        std::mem::swap(&mut first, &mut run);
    }
    let alone = waiting_for(&server, &run).await;
    assert_eq!((&alone["reason"], &alone["position"]), (&json!("no_worker"), &json!(1)));
    assert_eq!(alone["workers"], 0);
    let claim = |capabilities: &[&str]| json!({"topics": ["build"], "capabilities": capabilities});
    let plain = server.post("/api/v1/workers/plain/claim").json(&claim(&["linux"])).send().await.ok(200);
    assert_eq!(plain, json!({"jobs": []}));
    let incapable = waiting_for(&server, &run).await;
    assert_eq!(incapable["reason"], "capability");
    assert_eq!(incapable["detail"], "1 worker serves topic `build`; the closest match lacks gpu");
    let able = server.post("/api/v1/workers/able/claim").json(&claim(&["linux", "gpu"])).send().await.ok(200);
    assert_eq!(able["jobs"][0]["run_id"], json!(first));
    let busy = waiting_for(&server, &run).await;
    assert_eq!(
        (&busy["reason"], &busy["position"], &busy["workers"]),
        (&json!("saturated"), &json!(0), &json!(1))
    );
}

#[tokio::test]
async fn a_draining_worker_is_shown_as_draining_and_claims_no_job() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let drain = |draining: bool| server.post("/api/v1/workers/w1/drain").json(&json!({"draining": draining}));
    drain(true).send().await.problem(404, "not_found");
    let claim = json!({"topics": ["build"]});
    server.post("/api/v1/workers/w1/claim").json(&claim).send().await.ok(200);
    assert_eq!(drain(true).send().await.ok(200)["draining"], true);
    let listed = server.get("/api/v1/workers").send().await.ok(200);
    assert_eq!(
        (&listed["items"][0]["draining"], &listed["items"][0]["edge"]),
        (&json!(true), &json!("http"))
    );
    let run = server.run("wf", &json!({"n": 1})).await;
    let nothing = server.post("/api/v1/workers/w1/claim").json(&claim).send().await.ok(200);
    assert_eq!(nothing, json!({"jobs": []}));
    assert_eq!(waiting_for(&server, &run).await["reason"], "draining");
    assert_eq!(drain(false).send().await.ok(200)["draining"], false);
    assert_eq!(server.claim_one("w1").await["run_id"], json!(run));
    let unknown = server.post("/api/v1/workers/w1/drain").json(&json!({"draining": 1})).send().await;
    unknown.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_pool_topic_is_only_for_workers_on_http_with_its_capabilities() {
    let pool = interlock_model::scheduling::Pool {
        topics: ["build".parse().unwrap()].into(),
        requires: ["gpu".parse().unwrap()].into(),
    };
    let pools = interlock_model::scheduling::Pools::new([("large".to_owned(), pool)].into());
    let stages = interlock_control::Settings { pools, ..patient() };
    let server = Server::on(empty_store(), stages).await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let claim = |capabilities: &[&str]| json!({"topics": ["build"], "capabilities": capabilities});
    let plain = server.post("/api/v1/workers/plain/claim").json(&claim(&[])).send().await.ok(200);
    assert_eq!(plain, json!({"jobs": []}));
    assert_eq!(waiting_for(&server, &run).await["reason"], "no_worker");
    let able = server.post("/api/v1/workers/able/claim").json(&claim(&["gpu"])).send().await.ok(200);
    assert_eq!(able["jobs"][0]["run_id"], json!(run));
}
