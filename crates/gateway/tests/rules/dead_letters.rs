//! Dead letters: listed, shown, retried, deleted.

use interlock_backend::verbs::AddDeadLetter;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::job::JobOutcome;
use interlock_model::{JobId, TenantId, Timestamp};
use serde_json::json;

use crate::lists::all;
use crate::server::{Server, one_step};

fn job(run: u32) -> JobId {
    format!("0192f0c1-0000-7000-8000-{run:012}:build.x[3]@10").parse().unwrap()
}

fn letter(run: u32) -> DeadLetter {
    DeadLetter {
        job: job(run),
        topic: Some("build".parse().unwrap()),
        code: LetterCode::WorkerLost,
        reason: "10 dispatches lost their worker".to_owned(),
        attempts: 10,
        last_error: Some("the worker's lease ran out".to_owned()),
        buried_at: Timestamp::from_millis(1_794_700_800_123),
        result: Some(JobOutcome::completed(json!({"kept": true}))),
    }
}

async fn bury(server: &Server, letter: &DeadLetter) {
    let tenant: TenantId = "default".parse().unwrap();
    server
        .store
        .call(AddDeadLetter { tenant: tenant.clone(), dead_letter: letter.clone(), dead_letters_max: 1_000 })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_dead_letter_shows_every_member() {
    let server = Server::start().await;
    bury(&server, &letter(1)).await;
    let bare = DeadLetter { topic: None, last_error: None, code: LetterCode::ResultUnhandled, ..letter(2) };
    bury(&server, &bare).await;
    let mut expected = json!({
        "job_id": job(1), "run_id": job(1).run, "topic": "build", "reason": "10 dispatches lost their worker",
        "reason_code": "worker_lost", "attempts": 10, "last_error": "the worker's lease ran out",
        "created_at": "2026-11-15T00:00:00.123Z"
    });
    let listed = server.get("/api/v1/dlq").send().await.ok(200);
    assert_eq!((&listed["items"][1], &listed["next_cursor"]), (&expected, &json!(null)));
    expected["result"] = json!({"output": {"kept": true}});
    expected["how_to_retry"] = json!("the run is deleted: start another");
    let shown = server.get(&format!("/api/v1/dlq/{}", job(1))).send().await.ok(200);
    assert_eq!(shown, expected, "what may be long is not in lists");
    let shown = server.get(&format!("/api/v1/dlq/{}", job(2))).send().await.ok(200);
    assert_eq!(
        (&shown["topic"], &shown["last_error"], &shown["reason_code"]),
        (&json!(null), &json!(null), &json!("result_unhandled"))
    );
}

#[tokio::test]
async fn pages_list_every_dead_letter_once_newest_run_first() {
    let server = Server::start().await;
    for run in [3, 1, 5, 2, 4] {
        bury(&server, &letter(run)).await;
    }
    let listed = all(&server, "/api/v1/dlq", 2).await;
    let jobs: Vec<_> = listed.iter().map(|letter| letter["job_id"].clone()).collect();
    assert_eq!(jobs, [5, 4, 3, 2, 1].map(|run| json!(job(run))));
    for query in ["limit=0", "limit=501", "cursor=!"] {
        server.get(&format!("/api/v1/dlq?{query}")).send().await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_dead_letter_is_deleted_once_under_any_spelling_of_its_path() {
    let server = Server::start().await;
    let encoded = |job: &JobId| {
        let text = job.to_string();
        text.replace(':', "%3A").replace('[', "%5B").replace(']', "%5D").replace('@', "%40")
    };
    for (path, other) in [(job(1).to_string(), encoded(&job(1))), (encoded(&job(2)), job(2).to_string())] {
        bury(&server, &letter(1)).await;
        bury(&server, &letter(2)).await;
        let (path, other) = (format!("/api/v1/dlq/{path}"), format!("/api/v1/dlq/{other}"));
        server.get(&other).send().await.ok(200);
        server.delete(&path).send().await.ok(204);
        server.get(&other).send().await.problem(404, "not_found");
        server.delete(&other).send().await.problem(404, "not_found");
    }
    assert_eq!(all(&server, "/api/v1/dlq", 10).await.len(), 1);
}

#[tokio::test]
async fn dead_letters_of_other_tenants_are_not_found() {
    let server = Server::start().await;
    bury(&server, &letter(1)).await;
    let path = format!("/api/v1/dlq/{}", job(1));
    for ask in [server.get(&path), server.delete(&path)] {
        ask.header("x-tenant-id", "other").send().await.problem(404, "not_found");
    }
    let elsewhere = server.get("/api/v1/dlq").header("x-tenant-id", "other").send().await.ok(200);
    assert_eq!(elsewhere["items"], json!([]));
    for name in ["nonsense", "..", "0192f0c1-0000-7000-8000-000000000009:build@1"] {
        server.get(&format!("/api/v1/dlq/{name}")).send().await.problem(404, "not_found");
        server.delete(&format!("/api/v1/dlq/{name}")).send().await.problem(404, "not_found");
    }
    server.post(&path).send().await.problem(405, "method_not_allowed");
    server.get(&path).send().await.ok(200);
}

/// A dead letter of a live run.
async fn dead_letter_of_live_run(server: &Server) -> DeadLetter {
    server.post("/api/v1/workflows").json(&one_step("build")).send().await.ok(201);
    let started = server.post("/api/v1/workflows/build/runs").json(&json!({"n": 1})).send().await.ok(200);
    let job: JobId = format!("{}:build@1", started["run_id"].as_str().unwrap()).parse().unwrap();
    let letter = DeadLetter { job, code: LetterCode::ResultUnhandled, ..letter(1) };
    bury(server, &letter).await;
    letter
}

async fn claim(server: &Server) -> serde_json::Value {
    let claim = json!({"topics": ["build"], "max_jobs": 10, "wait_ms": 60_000});
    let claimed = server.post("/api/v1/workers/w/claim").json(&claim).send().await.ok(200);
    claimed["jobs"].as_array().unwrap().iter().map(|job| job["job_id"].clone()).collect()
}

#[tokio::test]
async fn a_retried_dead_letter_becomes_one_new_attempt_of_its_step() {
    let server = Server::start().await;
    let letter = dead_letter_of_live_run(&server).await;
    let path = format!("/api/v1/dlq/{}", letter.job);
    let shown = server.get(&path).send().await.ok(200);
    assert_eq!(shown["how_to_retry"], format!("interlock dlq retry '{}'", letter.job));
    assert_eq!(claim(&server).await, json!([letter.job]));
    let retried = server.post(&format!("{path}/retry")).send().await.ok(200);
    assert_eq!(retried, json!({"job_id": letter.job}));
    let next = JobId { attempt: 2, ..letter.job.clone() };
    assert_eq!(
        claim(&server).await,
        json!([next]),
        "the first attempt is revoked, and a second one is dispatched"
    );
    server.post(&format!("{path}/retry")).send().await.problem(404, "not_found");
    let timeline = server.get(&format!("/api/v1/workflow-runs/{}/timeline", letter.job.run)).send().await;
    let timeline = timeline.ok(200);
    let event = timeline["items"].as_array().unwrap().iter().find(|item| item["type"] == "step_retried");
    assert_eq!(event.unwrap()["data"]["by"], "anonymous");
    let late = server.post(&format!("/api/v1/jobs/{}/complete", letter.job)).json(&json!({"fence": 1}));
    late.send().await.problem(409, "stale_fence");
}

#[tokio::test]
async fn a_dead_letter_of_an_ended_run_is_refused_with_advice() {
    let server = Server::start().await;
    let letter = dead_letter_of_live_run(&server).await;
    let run = letter.job.run;
    server.post(&format!("/api/v1/workflow-runs/{run}/cancel")).send().await.ok(204);
    let path = format!("/api/v1/dlq/{}", letter.job);
    let refused = server.post(&format!("{path}/retry")).send().await.problem(409, "conflict");
    assert_eq!(refused["error"], format!("its run has ended: rerun it (interlock run rerun {run})"));
    let shown = server.get(&path).send().await.ok(200);
    assert!(
        shown["how_to_retry"].as_str().unwrap().contains(&format!("interlock run rerun {run}")),
        "{shown}"
    );
}

#[tokio::test]
async fn dead_letters_are_handled_by_filter_and_a_refusal_does_not_stop_the_rest() {
    let server = Server::start().await;
    let alive = dead_letter_of_live_run(&server).await;
    for run in [1, 2, 3] {
        bury(&server, &letter(run)).await;
    }
    let many = async |verb: &str, which: serde_json::Value| {
        server.post(&format!("/api/v1/dlq/{verb}")).json(&which).send().await
    };
    let dry = many("retry", json!({"all": true, "dry_run": true})).await.ok(200);
    assert_eq!(
        (&dry["matched"], &dry["done"], &dry["dry_run"]),
        (&json!(4), &json!([alive.job]), &json!(true))
    );
    let retried = many("retry", json!({"topic": "build"})).await.ok(200);
    assert_eq!((&retried["matched"], &retried["done"]), (&json!(4), &json!([alive.job])));
    let refused = retried["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 3);
    assert_eq!(refused[2]["job_id"], json!(job(1)));
    assert!(refused[2]["reason"].as_str().unwrap().contains("is deleted"), "{retried}");

    let none = many("delete", json!({"reason_code": "result_unhandled"})).await.ok(200);
    assert_eq!(none, json!({"matched": 0, "done": [], "refused": [], "dry_run": false, "more": false}));
    let before = json!({"before": "2026-11-15T00:00:00.123Z"});
    assert_eq!(many("delete", before).await.ok(200)["matched"], 0, "before, and not at");
    let one =
        many("delete", json!({"run_id": job(2).run, "before": "2026-11-15T00:00:00.124Z"})).await.ok(200);
    assert_eq!(one["done"], json!([job(2)]));
    let some = many("delete", json!({"all": true, "limit": 1})).await.ok(200);
    assert_eq!((&some["done"], &some["more"]), (&json!([job(3)]), &json!(true)));
    let rest = many("delete", json!({"all": true})).await.ok(200);
    assert_eq!((&rest["done"], &rest["more"]), (&json!([job(1)]), &json!(false)));
}

#[tokio::test]
async fn a_filter_for_dead_letters_is_required() {
    let server = Server::start().await;
    for verb in ["retry", "delete"] {
        for which in [
            json!({}),
            json!({"dry_run": true}),
            json!({"all": true, "topic": "build"}),
            json!({"reason_code": "whatever"}),
            json!({"all": true, "limit": 0}),
            json!({"all": true, "limit": 501}),
            json!({"before": "yesterday"}),
            json!({"al": true}),
        ] {
            let answer = server.post(&format!("/api/v1/dlq/{verb}")).json(&which).send().await;
            answer.problem(400, "invalid_request");
        }
    }
}
