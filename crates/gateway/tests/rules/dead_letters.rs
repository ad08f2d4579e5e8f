//! Dead letters: listed, shown, deleted.

use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::job::JobOutcome;
use interlock_model::{JobId, TenantId, Timestamp};
use serde_json::json;

use crate::lists::all;
use crate::server::Server;

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
        result: Some(JobOutcome::Completed { output: json!({"kept": true}) }),
    }
}

async fn bury(server: &Server, letter: &DeadLetter) {
    let tenant: TenantId = "default".parse().unwrap();
    server.store.bury(&tenant, letter).await.unwrap();
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
    let shown = server.get(&format!("/api/v1/dlq/{}", job(1))).send().await.ok(200);
    assert_eq!(shown, expected, "what may be long is not in lists");
    let shown = server.get(&format!("/api/v1/dlq/{}", job(2))).send().await.ok(200);
    assert_eq!(
        (&shown["topic"], &shown["last_error"], &shown["reason_code"]),
        (&json!(null), &json!(null), &json!("result_unhandled"))
    );
}

#[tokio::test]
async fn pages_of_dead_letters_hold_every_one_once_newest_run_first() {
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
async fn what_is_no_dead_letter_of_this_tenant_is_not_found() {
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
