//! Each policy with idempotency keys: what the starts get, and what their repeats get.

use serde_json::{Value, json};

use super::super::alerts::scrape;
use super::{
    Caller, Server, end_one, explain_says_the_same, put, replayed, start, tenant, why_says_the_same,
    without_holder,
};

/// One live run per value of `input.key`.
fn keyed(on_full: &str, queue: &Value) -> Value {
    let mut document = json!({"key": "input.key", "max_runs": 1, "on_full": on_full});
    if !queue.is_null() {
        document["queue"] = queue.clone();
    }
    document
}

async fn limited(server: &Server, name: &str, on_full: &str, queue: Value) -> Caller {
    let caller = tenant(server, name).await;
    put(&caller, "one", keyed(on_full, &queue)).await;
    caller
}

pub(super) async fn reject(server: &Server) {
    let caller = limited(server, "rejects", "reject", Value::Null).await;
    let first = start(&caller, "a").await.expect(200).text("run_id");
    let refused = start(&caller, "b").await.expect(429);
    assert_eq!((refused.text("code"), refused.text("limit")), ("limit_reached".into(), "one".into()));
    assert!(refused.headers.contains_key("retry-after"));
    explain_says_the_same(&caller, "reject", &refused).await;
    assert_eq!(end_one(&caller).await, first);
    let second = start(&caller, "b").await.expect(200);
    assert_eq!(second.body["replayed"], json!(false), "a refused start leaves its key free");
    replayed(&caller, "a", &first, "succeeded").await;
}

pub(super) async fn queue(server: &Server) {
    let caller = limited(server, "queues", "queue", json!({"max": 1})).await;
    let first = start(&caller, "a").await.expect(200).text("run_id");
    let queued = start(&caller, "b").await.expect(202);
    assert_eq!((queued.number("position"), queued.text("status")), (1, "queued".into()));
    let run = queued.text("run_id");
    why_says_the_same(&caller, &run, &queued.body).await;
    replayed(&caller, "b", &run, "queued").await;
    let full = start(&caller, "c").await.expect(429);
    assert_eq!((full.text("code"), full.text("limit")), ("queue_full".into(), "one".into()));
    assert_eq!(full.body["blocked_by"]["full"], json!("slots"));
    explain_says_the_same(&caller, "queue_full", &full).await;
    assert_eq!((end_one(&caller).await, end_one(&caller).await), (first, run.clone()));
    replayed(&caller, "b", &run, "succeeded").await;
    assert_eq!(start(&caller, "c").await.expect(200).body["replayed"], json!(false));
}

pub(super) async fn join(server: &Server) {
    let caller = limited(server, "joins", "join", Value::Null).await;
    let run = start(&caller, "a").await.expect(200).text("run_id");
    let joined = start(&caller, "b").await.expect(200);
    assert_eq!((joined.text("run_id"), &joined.body["joined"]), (run.clone(), &json!(true)));
    replayed(&caller, "b", &run, "running").await;
    end_one(&caller).await;
    replayed(&caller, "b", &run, "succeeded").await;
    assert_ne!(start(&caller, "c").await.expect(200).text("run_id"), run, "an ended run is not joined");
    let reused = caller.start("job", Some("b"), &json!({"key": "other"})).await.expect(422);
    assert_eq!(reused.text("code"), "idempotency_key_reused");
}

pub(super) async fn replace_queued(server: &Server) {
    let caller = limited(server, "newest", "replace_queued", Value::Null).await;
    let first = start(&caller, "a").await.expect(200).text("run_id");
    let older = start(&caller, "b").await.expect(202);
    why_says_the_same(&caller, &older.text("run_id"), &older.body).await;
    let newer = start(&caller, "c").await.expect(202).text("run_id");
    let older = older.text("run_id");
    let ended = caller.ended(&older).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("cancelled"), &json!("superseded")));
    replayed(&caller, "b", &older, "cancelled").await;
    replayed(&caller, "c", &newer, "queued").await;
    assert_eq!((end_one(&caller).await, end_one(&caller).await), (first, newer));
}

pub(super) async fn replace_running(server: &Server) {
    let caller = limited(server, "restarts", "replace_running", Value::Null).await;
    let older = start(&caller, "a").await.expect(200).text("run_id");
    let newer = start(&caller, "b").await.expect(202);
    assert_eq!((newer.number("position"), &newer.body["blocked_by"]["limit"]), (1, &json!("one")));
    let ended = caller.ended(&older).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("cancelled"), &json!("replaced_by")));
    replayed(&caller, "a", &older, "cancelled").await;
    let newer = newer.text("run_id");
    caller.when(&newer, |run| run["status"] == "running").await;
    assert_eq!(end_one(&caller).await, newer);
    replayed(&caller, "b", &newer, "succeeded").await;
}

pub(super) async fn debounce(server: &Server) {
    let caller = tenant(server, "calm").await;
    let calm = |quiet: u32| json!({"key": "input.key", "on_full": "debounce", "quiet_sec": quiet, "max_delay_sec": 3_600});
    put(&caller, "calm", calm(600)).await;
    let newer = async |key: &str, number: u32| {
        caller.start("job", Some(key), &json!({"key": "a", "number": number})).await.expect(202)
    };
    let first = start(&caller, "a").await.expect(202);
    let (run, blocked) = (first.text("run_id"), &first.body["blocked_by"]);
    assert_eq!((first.text("status"), &first.body["position"]), ("queued".into(), &Value::Null));
    assert_eq!((&blocked["reason"], &blocked["full"]), (&json!("debounced"), &json!("quiet")));
    why_says_the_same(&caller, &run, &first.body).await;
    let second = newer("b", 2).await;
    assert_eq!(
        (second.text("run_id"), &second.body["blocked_by"]["quiet"]["starts"]),
        (run.clone(), &json!(2))
    );
    assert_eq!(second.body["blocked_by"]["quiet"]["latest"], blocked["quiet"]["latest"]);
    explain_says_the_same(&caller, "debounce", &second).await;
    replayed(&caller, "a", &run, "queued").await;
    let waiting = caller.run(&run).await;
    assert_eq!(
        waiting["waiting_for"]["quiet"], second.body["blocked_by"]["quiet"],
        "a replay extends nothing"
    );
    assert_eq!(waiting["input"], json!({"key": "a", "number": 2}));
    let reused = caller.start("job", Some("b"), &json!({"key": "other"})).await.expect(422);
    assert_eq!(reused.text("code"), "idempotency_key_reused");
    let shown = caller.get("/limits/calm").await.expect(200).body;
    assert_eq!((&shown["usage"]["debounced"], &shown["groups"][0]["debounced"]), (&json!(1), &json!(1)));
    // New numbers apply from the next start on: a second after it the run goes on by itself.
    put(&caller, "calm", calm(1)).await;
    assert_eq!(newer("c", 3).await.text("run_id"), run);
    caller.when(&run, |run| run["status"] == "running").await;
    assert_eq!(end_one(&caller).await, run);
    assert_eq!(caller.run(&run).await["input"], json!({"key": "a", "number": 3}));
    replayed(&caller, "a", &run, "succeeded").await;
    put(&caller, "calm", calm(600)).await;
    let next = newer("d", 4).await.text("run_id");
    assert_ne!(next, run, "that one has ended");
    // A limit that debounces no more lets its runs go on at once.
    put(&caller, "calm", json!({"key": "input.key", "max_runs": 1})).await;
    caller.when(&next, |run| run["status"] == "running").await;
    let invalid = json!({"key": "input.key", "on_full": "debounce"});
    let answer =
        caller.try_send(reqwest::Method::PUT, "/limits/calm", None, &invalid).await.unwrap().expect(400);
    assert!(answer.text("detail").contains("quiet_sec"), "{answer:?}");
}

pub(super) async fn timeout(server: &Server) {
    let caller = limited(server, "impatient", "queue", json!({"max_wait_sec": 1})).await;
    start(&caller, "a").await.expect(200);
    let run = start(&caller, "b").await.expect(202).text("run_id");
    let ended = caller.ended(&run).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("timed_out"), &json!("queue_timeout")));
    replayed(&caller, "b", &run, "timed_out").await;
    assert_eq!(start(&caller, "c").await.expect(202).number("position"), 1, "it has left the queue");
}

pub(super) async fn rate(server: &Server) {
    let caller = tenant(server, "paced").await;
    put(&caller, "pace", json!({"rate": {"starts": 1, "period_sec": 3_600}})).await;
    start(&caller, "a").await.expect(200);
    let refused = start(&caller, "b").await.expect(429);
    assert!(refused.number("retry_after_ms") >= 3_500_000, "{refused:?}");
    put(&caller, "pace", json!({"rate": {"starts": 1, "period_sec": 3_600}, "on_full": "queue"})).await;
    let queued = start(&caller, "b").await.expect(202);
    assert_eq!(queued.body["blocked_by"]["full"], json!("rate"));
    // Without the rate nothing holds it back.
    let answer = caller.try_send(reqwest::Method::DELETE, "/limits/pace", None, &Value::Null).await;
    answer.unwrap().expect(204);
    caller.when(&queued.text("run_id"), |run| run["status"] == "running").await;
}

pub(super) async fn paused(server: &Server) {
    let caller = limited(server, "paused", "queue", Value::Null).await;
    caller.post("/limits/one/pause", Value::Null).await.expect(200);
    let queued = start(&caller, "a").await.expect(202);
    assert_eq!(queued.body["blocked_by"]["reason"], json!("blocked"));
    let run = queued.text("run_id");
    let why = caller.get(&format!("/why?run_id={run}")).await.expect(200).body;
    assert_eq!(why["causes"][0]["code"], json!("blocked"));
    assert!(why["causes"][0]["detail"].as_str().unwrap().contains("was paused by `anonymous`"), "{why}");
    caller.post("/limits/one/resume", Value::Null).await.expect(200);
    caller.when(&run, |run| run["status"] == "running").await;
}

pub(super) async fn paused_workflow(server: &Server) {
    let caller = tenant(server, "held-back").await;
    let running = start(&caller, "a").await.expect(200).text("run_id");
    let paused = caller.post("/workflows/job/pause", json!({"reason": "bad release"})).await.expect(200).body;
    assert_eq!(
        (&paused["limit"], &paused["paused"]["reason"]),
        (&json!("workflow.job"), &json!("bad release"))
    );
    let refused = start(&caller, "b").await.expect(429);
    assert_eq!(
        (refused.text("code"), refused.text("limit")),
        ("limit_reached".into(), "workflow.job".into())
    );
    assert_eq!(refused.body["blocked_by"]["full"], json!("paused"));
    replayed(&caller, "a", &running, "running").await;
    let other = json!({"work": {"type": "worker", "topic": "work"}});
    caller.workflow("other", other.clone()).await;
    caller.start("other", None, &json!({})).await.expect(200);
    caller.workflow("job", other).await;
    start(&caller, "b").await.expect(429);
    caller.post("/workflows/job/pause", json!({"on_full": "queue"})).await.expect(200);
    let queued = start(&caller, "b").await.expect(202);
    assert_eq!(queued.body["blocked_by"]["reason"], json!("blocked"));
    let resumed = caller.post("/workflows/job/resume", Value::Null).await.expect(200).body;
    assert_eq!(resumed["paused"], Value::Null);
    caller.when(&queued.text("run_id"), |run| run["status"] == "running").await;
    caller.get("/limits/workflow.job").await.expect(404);
    start(&caller, "c").await.expect(200);
    caller.post("/workflows/job/resume", Value::Null).await.expect(200);
    caller.post("/workflows/missing/pause", Value::Null).await.expect(404);
}

pub(super) async fn tenant_cap(server: &Server) {
    let caller = tenant(server, "capped").await;
    caller.limit(1).await;
    let first = start(&caller, "a").await.expect(200).text("run_id");
    let refused = start(&caller, "b").await.expect(429);
    assert_eq!((refused.text("code"), refused.number("limit")), ("max_concurrent_runs".into(), 1));
    assert!(refused.text("error").starts_with("max concurrent runs reached"));
    explain_says_the_same(&caller, "reject", &refused).await;
    let why = caller.get("/why?workflow_id=job").await.expect(200).body;
    let said = why["causes"][0]["detail"].as_str().unwrap();
    assert_eq!(without_holder(said), refused.text("detail"));
    put(&caller, "tenant-runs", json!({"max_runs": 1, "on_full": "queue"})).await;
    let queued = start(&caller, "b").await.expect(202);
    let run = queued.text("run_id");
    why_says_the_same(&caller, &run, &queued.body).await;
    assert_eq!((end_one(&caller).await, end_one(&caller).await), (first, run));
}

/// All of them on one server, each in a tenant of its own.
pub(crate) async fn all(server: &Server) {
    tokio::join!(
        Box::pin(reject(server)),
        Box::pin(queue(server)),
        Box::pin(join(server)),
        Box::pin(replace_queued(server)),
        Box::pin(replace_running(server)),
        Box::pin(debounce(server)),
        Box::pin(timeout(server)),
        Box::pin(rate(server)),
        Box::pin(paused(server)),
        Box::pin(paused_workflow(server)),
        Box::pin(tenant_cap(server)),
    );
}

#[tokio::test]
async fn every_policy_answers_starts_and_their_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    Box::pin(all(&server)).await;
    let metrics = scrape(&server).await;
    let count = |series: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series));
        line.and_then(|rest| rest.trim().parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{series} in {metrics}"))
    };
    for how in ["granted", "timed_out", "superseded"] {
        assert!(count(&format!("interlock_queue_ended_total{{how=\"{how}\"}}")) >= 1, "{how}");
    }
    let waits = count("interlock_queue_wait_seconds_count");
    assert_eq!(waits, count("interlock_queue_ended_total{how=\"granted\"}"));
    assert_eq!(count("interlock_limit_queued{tenant=\"impatient\",limit=\"one\"}"), 1);
    assert_eq!(count("interlock_limit_usage{tenant=\"impatient\",limit=\"one\"}"), 1);
    assert_eq!(count("interlock_limit_max{tenant=\"capped\",limit=\"tenant-runs\"}"), 1);
}

#[tokio::test]
async fn every_policy_is_the_same_with_the_lock_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--admission-strategy", "lock"]);
    Box::pin(all(&server)).await;
}
