//! A cap holds for any number of starts at once.

use futures_util::future::join_all;
use serde_json::json;

use super::server::{Answer, Caller, Server};

fn one_step() -> serde_json::Value {
    json!({"work": {"type": "worker", "topic": "work"}})
}

async fn tenant(server: &Server, name: &str, cap: u32) -> Caller {
    let caller = server.caller(name);
    caller.workflow("job", one_step()).await;
    caller.limit(cap).await;
    caller
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status.as_u16() == status).count()
}

#[tokio::test]
async fn ten_starts_at_once_under_a_cap_of_two_admit_exactly_two() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = tenant(&server, "acme", 2).await;
    let input = json!({});
    let answers = join_all((0..10).map(|_| caller.start("job", None, &input))).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 8));
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(
        (refused.text("code"), refused.number("limit"), refused.number("current")),
        ("max_concurrent_runs".into(), 2, 2)
    );
    assert!(refused.text("error").starts_with("max concurrent runs reached"));
    assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert!(refused.number("retry_after_ms") >= 1_000);
    assert_eq!(refused.headers["ratelimit"], "\"tenant-runs\";r=0");
    assert_eq!(refused.headers["ratelimit-policy"], "\"tenant-runs\";q=2;qu=\"concurrent-requests\"");
}

#[tokio::test]
async fn a_thousand_starts_at_once_admit_exactly_two_and_none_fails() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = tenant(&server, "acme", 2).await;
    let input = json!({});
    let answers = join_all((0..1_000).map(|_| caller.start("job", None, &input))).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 998));
}

#[tokio::test]
async fn twenty_tenants_at_once_get_exactly_their_two_each() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let tenants = join_all((0..20).map(|number| {
        let server = &server;
        async move { tenant(server, &format!("tenant-{number}"), 2).await }
    }))
    .await;
    let input = json!({});
    let starts = tenants.iter().flat_map(|caller| (0..10).map(|_| caller.start("job", None, &input)));
    let answers = join_all(starts).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (40, 160));
    for (tenant, answers) in tenants.iter().zip(answers.chunks(10)) {
        assert_eq!(count(answers, 200), 2, "{}", tenant.tenant);
    }
}

#[tokio::test]
async fn a_freed_slot_admits_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = tenant(&server, "acme", 1).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    caller.start("job", None, &json!({})).await.expect(429);
    caller.post(&format!("/workflow-runs/{run}/cancel"), serde_json::Value::Null).await.expect(204);
    caller.post(&format!("/workflow-runs/{run}/cancel"), serde_json::Value::Null).await.expect(204);
    assert_eq!(caller.run(&run).await["status"], "cancelled");
    caller.start("job", None, &json!({})).await.expect(200);
    caller.start("job", None, &json!({})).await.expect(429);
}

#[tokio::test]
async fn cap_and_keys_hold_under_the_admission_lock() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--admission-strategy", "lock"]);
    let caller = tenant(&server, "acme", 2).await;
    let input = json!({});
    let answers = join_all((0..10).map(|_| caller.start("job", None, &input))).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 8), "{answers:?}");
    caller.start("job", Some("k"), &input).await.expect(429);
    caller.limit(3).await;
    let run = caller.start("job", Some("k"), &json!({"other": true})).await.expect(200).text("run_id");
    let again = caller.start("job", Some("k"), &json!({"other": true})).await.expect(200);
    assert_eq!((again.text("run_id"), &again.body["replayed"]), (run, &json!(true)));
    caller.start("job", Some("k"), &input).await.expect(422);
    // A run that was started under the lock is known without it.
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(folder.path());
    let again = server.caller("acme").start("job", Some("k"), &json!({"other": true})).await.expect(200);
    assert_eq!(again.body["replayed"], json!(true));
}
